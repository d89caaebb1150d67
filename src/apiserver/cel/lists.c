/* Lists and sets. */
#include "apiserver/cel/internal.h"

static bool comparable(const struct cel_value *v)
{
    int c;

    return cel_compare(v, v, &c);
}

static struct cel_value is_sorted(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    struct cel_value before = cel_null();

    if (!cel_is(a, CEL_LIST))
        return cel_no_overload();
    if (cel_charge(ev, cel_list_size(a->list)))
        return cel_exhausted();
    for (size_t i = 0; i < cel_list_size(a->list); i++) {
        struct cel_value item = cel_list_at(ev, a->list, i);
        int c = 0;
        if (!comparable(&item) || (i && !cel_compare(&before, &item, &c)))
            return cel_no_overload();
        if (c > 0)
            return cel_bool(false);
        before = item;
    }
    return cel_bool(true);
}

static struct cel_value extreme(struct cel_eval *ev, const struct cel_value *a, int sign)
{
    struct cel_value best = cel_null();

    if (!cel_is(a, CEL_LIST))
        return cel_no_overload();
    if (cel_list_size(a->list) == 0)
        return cel_errorf(ev, "%s called on empty list", sign < 0 ? "min" : "max");
    if (cel_charge(ev, cel_list_size(a->list)))
        return cel_exhausted();
    for (size_t i = 0; i < cel_list_size(a->list); i++) {
        struct cel_value item = cel_list_at(ev, a->list, i);
        int c = 0;
        if (!comparable(&item) || (i && !cel_compare(&item, &best, &c)))
            return cel_no_overload();
        if (i == 0 || (c != 2 && c * sign > 0))
            best = item;
    }
    return best;
}

static struct cel_value list_min(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    return extreme(ev, a, -1);
}

static struct cel_value list_max(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    return extreme(ev, a, 1);
}

static struct cel_value sum(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    const struct cel_function *add = &cel_operator_functions[0]; /* "+" comes first */
    struct cel_value total = cel_int(0);

    if (!cel_is(a, CEL_LIST))
        return cel_no_overload();
    if (cel_charge(ev, cel_list_size(a->list)))
        return cel_exhausted();
    for (size_t i = 0; i < cel_list_size(a->list); i++) {
        struct cel_value pair[2] = {total, cel_list_at(ev, a->list, i)};
        if (!cel_is(&pair[1], CEL_INT) && !cel_is(&pair[1], CEL_UINT) && !cel_is(&pair[1], CEL_DOUBLE) &&
            !cel_is(&pair[1], CEL_DURATION))
            return cel_no_overload();
        total = i ? add->call(ev, pair, 2) : pair[1];
        if (cel_is(&total, CEL_ERROR))
            return total;
    }
    return total;
}

/* ---- sets ---- */

static bool has(struct cel_eval *ev, const struct cel_list *l, const struct cel_value *v)
{
    for (size_t i = 0; i < cel_list_size(l); i++) {
        struct cel_value item = cel_list_at(ev, l, i);
        if (cel_equal(ev, &item, v))
            return true;
    }
    return false;
}

static bool has_all(struct cel_eval *ev, const struct cel_list *l, const struct cel_list *of)
{
    for (size_t i = 0; i < cel_list_size(of); i++) {
        struct cel_value item = cel_list_at(ev, of, i);
        if (!has(ev, l, &item))
            return false;
    }
    return true;
}

static bool two_lists(const struct cel_value *a)
{
    return cel_is(&a[0], CEL_LIST) && cel_is(&a[1], CEL_LIST);
}

static struct cel_value sets_contains(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    return two_lists(a) ? cel_bool(has_all(ev, a[0].list, a[1].list)) : cel_no_overload();
}

static struct cel_value sets_equivalent(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    return two_lists(a) ? cel_bool(has_all(ev, a[0].list, a[1].list) && has_all(ev, a[1].list, a[0].list))
                        : cel_no_overload();
}

static struct cel_value sets_intersects(struct cel_eval *ev, const struct cel_value *a, size_t count UNUSED)
{
    if (!two_lists(a))
        return cel_no_overload();
    for (size_t i = 0; i < cel_list_size(a[0].list); i++) {
        struct cel_value item = cel_list_at(ev, a[0].list, i);
        if (has(ev, a[1].list, &item))
            return cel_bool(true);
    }
    return cel_bool(false);
}

const struct cel_function cel_list_functions[] = {
    {"isSorted", true, 1, 1, CEL_BOOL, is_sorted},
    {"min", true, 1, 1, CEL_DYN, list_min},
    {"max", true, 1, 1, CEL_DYN, list_max},
    {"sum", true, 1, 1, CEL_DYN, sum},
    {"sets.contains", false, 2, 2, CEL_BOOL, sets_contains},
    {"sets.equivalent", false, 2, 2, CEL_BOOL, sets_equivalent},
    {"sets.intersects", false, 2, 2, CEL_BOOL, sets_intersects},
    {0},
};
