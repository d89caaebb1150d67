#include "test.h"

#include "apiserver/json_patch.h"
#include "apiserver/merge_patch.h"
#include "schema_fixture.h"

struct patch_case {
    const char *doc, *patch;
    const char *result; /* NULL: fails */
    int code;           /* of the error */
};

static void run_cases(const struct patch_case *cases, size_t n,
                      struct json *(*apply)(const struct json *, const struct json *, struct error *))
{
    for (size_t i = 0; i < n; i++) {
        _cleanup_error_ struct error err = ERROR_INIT;
        _cleanup_json_ struct json *doc = fixture_json(cases[i].doc), *before = json_copy(doc);
        _cleanup_json_ struct json *patch = fixture_json(cases[i].patch), *patch_before = json_copy(patch);
        _cleanup_json_ struct json *result = apply(doc, patch, &err);
        _cleanup_json_ struct json *wanted = cases[i].result ? fixture_json(cases[i].result) : NULL;

        if (!json_equal(result, wanted) || err.code != cases[i].code)
            fail_msg("%s on %s: %s (%s)", cases[i].patch, cases[i].doc, json_text(result), error_text(&err));
        assert_true(json_equal(doc, before));
        assert_true(json_equal(patch, patch_before));
    }
}

static void test_json_patch(void **state UNUSED)
{
    static const struct patch_case cases[] = {
        /* RFC 6902, appendix A, one by one in other words. */
        {"{'den':'north'}", "[{'op':'add','path':'/otters','value':2}]", "{'otters':2,'den':'north'}", 0},
        {"{'fish':['eel','roach']}", "[{'op':'add','path':'/fish/1','value':'pike'}]",
         "{'fish':['eel','pike','roach']}", 0},
        {"{'a':1,'b':2}", "[{'op':'remove','path':'/a'}]", "{'b':2}", 0},
        {"{'l':[1,2,3]}", "[{'op':'remove','path':'/l/1'}]", "{'l':[1,3]}", 0},
        {"{'a':1,'b':2}", "[{'op':'replace','path':'/a','value':[]}]", "{'a':[],'b':2}", 0},
        {"{'a':{'x':1,'y':2},'b':{'z':3}}", "[{'op':'move','from':'/a/x','path':'/b/w'}]",
         "{'a':{'y':2},'b':{'z':3,'w':1}}", 0},
        {"{'l':['a','b','c','d']}", "[{'op':'move','from':'/l/1','path':'/l/3'}]", "{'l':['a','c','d','b']}", 0},
        {"{'a':'x','l':[1,'two']}", "[{'op':'test','path':'/a','value':'x'},{'op':'test','path':'/l/1','value':'two'}]",
         "{'a':'x','l':[1,'two']}", 0},
        {"{'a':'x'}", "[{'op':'test','path':'/a','value':'y'}]", NULL, EPERM},
        {"{'a':1}", "[{'op':'add','path':'/o','value':{'in':{}}}]", "{'a':1,'o':{'in':{}}}", 0},
        {"{'a':1}", "[{'op':'add','path':'/b','value':2,'other':3}]", "{'a':1,'b':2}", 0},
        {"{'a':1}", "[{'op':'add','path':'/b/c','value':2}]", NULL, ENOENT},
        {"{'/':9,'~1':10}", "[{'op':'test','path':'/~01','value':10},{'op':'remove','path':'/~1'}]", "{'~1':10}", 0},
        {"{'n':10}", "[{'op':'test','path':'/n','value':'10'}]", NULL, EPERM},
        {"{'l':[1]}", "[{'op':'add','path':'/l/-','value':[2,3]}]", "{'l':[1,[2,3]]}", 0},
        /* Positions. */
        {"{'l':[1,2,3]}", "[{'op':'remove','path':'/l/-1'}]", "{'l':[1,2]}", 0},
        {"{'l':[1,2,3]}", "[{'op':'add','path':'/l/-1','value':4}]", "{'l':[1,2,3,4]}", 0},
        {"{'l':[1,2,3]}", "[{'op':'replace','path':'/l/-3','value':4}]", "{'l':[4,2,3]}", 0},
        {"{'l':[1]}", "[{'op':'remove','path':'/l/-2'}]", NULL, ENOENT},
        {"{'l':[1]}", "[{'op':'remove','path':'/l/-'}]", NULL, EPERM},
        {"{'l':[1]}", "[{'op':'add','path':'/l/2','value':0}]", NULL, ENOENT},
        {"{'l':[1]}", "[{'op':'add','path':'/l/x','value':0}]", NULL, EPERM},
        {"[]", "[{'op':'add','path':'/0','value':1}]", "[1]", 0},
        /* The whole document. */
        {"{'a':1}", "[{'op':'replace','path':'','value':{'b':2}}]", "{'b':2}", 0},
        {"{'a':1}", "[{'op':'add','path':'','value':[1]},{'op':'add','path':'/-','value':2}]", "[1,2]", 0},
        {"{'a':1}", "[{'op':'test','path':'','value':{'a':1.0}}]", "{'a':1}", 0},
        {"{'a':1}", "[{'op':'remove','path':''}]", NULL, EPERM},
        {"{'a':1}", "[{'op':'copy','from':'','path':'/b'}]", "{'a':1,'b':{'a':1}}", 0},
        {"{'a':1}", "[{'op':'move','from':'','path':'/b'}]", NULL, EPERM},
        {"{'a':{'b':1}}", "[{'op':'move','from':'/a','path':''}]", "{'b':1}", 0},
        /* Copies do not stay tied to what they were made of. */
        {"{'a':{'x':1}}",
         "[{'op':'copy','from':'/a','path':'/b'},{'op':'replace','path':'/a/x','value':2},"
         "{'op':'add','path':'/b/y','value':3}]",
         "{'a':{'x':2},'b':{'x':1,'y':3}}", 0},
        {"{}",
         "[{'op':'add','path':'/a','value':{}},{'op':'copy','from':'/a','path':'/b'},"
         "{'op':'add','path':'/a/x','value':1}]",
         "{'a':{'x':1},'b':{}}", 0},
        {"{'a':{'b':{}}}", "[{'op':'move','from':'/a','path':'/a/b/c'}]", NULL, EPERM},
        {"{'a':1}", "[{'op':'move','from':'/a','path':'/a'}]", "{'a':1}", 0},
        {"{'ab':1,'a':2}", "[{'op':'move','from':'/a','path':'/ab'}]", "{'ab':2}", 0},
        /* Null is a value; a test for it holds for what is missing. */
        {"{'a':null}", "[{'op':'test','path':'/a','value':null},{'op':'remove','path':'/a'}]", "{}", 0},
        {"{}", "[{'op':'test','path':'/a','value':null}]", "{}", 0},
        {"{}", "[{'op':'test','path':'/a','value':1}]", NULL, ENOENT},
        {"{}", "[{'op':'test','path':'/a/b','value':null}]", NULL, ENOENT},
        {"{'a':1}", "[{'op':'replace','path':'/a','value':null}]", "{'a':null}", 0},
        {"{'a':{'b':1}}", "[{'op':'replace','path':'/a/c','value':1}]", NULL, ENOENT},
        {"{'a':'s'}", "[{'op':'add','path':'/a/c','value':1}]", NULL, ENOENT},
        /* Nothing happens when one operation fails. */
        {"{'a':1}", "[{'op':'remove','path':'/a'},{'op':'remove','path':'/a'}]", NULL, ENOENT},
        {"{'a':1}", "[]", "{'a':1}", 0},
        {"{'a':1}", "{'op':'remove','path':'/a'}", NULL, EINVAL},
        {"{'a':1}", "[1]", NULL, EINVAL},
        {"{'a':1}", "[{'op':'remove'}]", NULL, EPERM},
        {"{'a':1}", "[{'op':'remove','path':'a'}]", NULL, EPERM},
        {"{'a':1}", "[{'op':'add','path':'/b'}]", NULL, EPERM},
        {"{'a':1}", "[{'op':'copy','path':'/b'}]", NULL, EPERM},
        {"{'a':1}", "[{'op':'spawn','path':'/b','value':1}]", NULL, EPERM},
        /* What kubectl sends to hand managedFields over. */
        {"{'metadata':{'resourceVersion':'5','managedFields':[{'manager':'a'}]}}",
         "[{'op':'replace','path':'/metadata/managedFields','value':[{'manager':'kubectl'}]},"
         "{'op':'replace','path':'/metadata/resourceVersion','value':'6'}]",
         "{'metadata':{'resourceVersion':'6','managedFields':[{'manager':'kubectl'}]}}", 0},
    };
    run_cases(cases, ARRAY_LEN(cases), json_patch_apply);
}

static struct json *repeated(const char *op, size_t n)
{
    struct json *patch = json_array_make();
    _cleanup_json_ struct json *operation = fixture_json(op);

    for (size_t i = 0; i < n; i++)
        json_push(patch, json_ref(operation));
    return patch;
}

static void test_json_patch_limits(void **state UNUSED)
{
    static const struct {
        const char *doc, *op;
        size_t times;
        int code;
    } cases[] = {
        {"{'l':[]}", "{'op':'add','path':'/l/-','value':1}", JSON_PATCH_OPERATIONS_MAX, 0},
        {"{'l':[]}", "{'op':'add','path':'/l/-','value':1}", JSON_PATCH_OPERATIONS_MAX + 1, E2BIG},
        /* Doubles what is under /a each time. */
        {"{'a':{'x':[1,2,3,4,5,6,7,8]}}", "{'op':'copy','from':'/a','path':'/a/y'}", 5000, EPERM},
        /* Deeper each time. */
        {"{'a':{},'b':{}}", "{'op':'copy','from':'','path':'/a'}", 300, EPERM},
        {"{'l':[]}", "{'op':'add','path':'/l/0','value':1}", JSON_PATCH_OPERATIONS_MAX, EPERM},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_error_ struct error err = ERROR_INIT;
        _cleanup_json_ struct json *doc = fixture_json(cases[i].doc);
        _cleanup_json_ struct json *patch = repeated(cases[i].op, cases[i].times);
        _cleanup_json_ struct json *result = json_patch_apply(doc, patch, &err);

        if (err.code != cases[i].code)
            fail_msg("%s: %s", cases[i].op, error_text(&err));
        if (!result)
            continue;
        /* What came out can be stored and read again. */
        _cleanup_free_ char *text = json_text(result);
        _cleanup_json_ struct json *again = json_parse(text, strlen(text), NULL);
        assert_true(json_equal(result, again));
    }
}

static void test_json_patch_depth(void **state UNUSED)
{
    /* The deepest document that a patch may make can be read back. */
    _cleanup_json_ struct json *doc = fixture_json("{'a':{}}");
    _cleanup_json_ struct json *patch = fixture_json("[{'op':'copy','from':'','path':'/a'}]");
    size_t levels = 0;

    for (;; levels++) {
        struct json *next = json_patch_apply(doc, patch, NULL);
        if (!next)
            break;
        json_unref(doc);
        doc = next;
    }
    assert_in_range(levels, 200, JSON_DEPTH_MAX);
    _cleanup_free_ char *text = json_text(doc);
    _cleanup_json_ struct json *again = json_parse(text, strlen(text), NULL);
    assert_true(json_equal(doc, again));
}

static void test_merge_patch(void **state UNUSED)
{
    static const struct patch_case cases[] = {
        /* RFC 7386, appendix A, as far as the patch is an object. */
        {"{'a':'b'}", "{'a':'c'}", "{'a':'c'}", 0},
        {"{'a':'b'}", "{'b':'c'}", "{'a':'b','b':'c'}", 0},
        {"{'a':'b'}", "{'a':null}", "{}", 0},
        {"{'a':'b','b':'c'}", "{'a':null}", "{'b':'c'}", 0},
        {"{'a':['b']}", "{'a':'c'}", "{'a':'c'}", 0},
        {"{'a':'c'}", "{'a':['b']}", "{'a':['b']}", 0},
        {"{'a':{'b':'c'}}", "{'a':{'b':'d','c':null}}", "{'a':{'b':'d'}}", 0},
        {"{'a':[{'b':'c'}]}", "{'a':[1]}", "{'a':[1]}", 0},
        {"{'e':null}", "{'a':1}", "{'e':null,'a':1}", 0},
        {"[1,2]", "{'a':'b','c':null}", "{'a':'b'}", 0},
        {"{}", "{'a':{'bb':{'ccc':null}}}", "{'a':{'bb':{}}}", 0},
        {"{'a':1}", "[]", NULL, EINVAL},
        {"{'a':1}", "'text'", NULL, EINVAL},
        {"{'a':1}", "null", NULL, EINVAL},
        /* kubectl label x- and scale. */
        {"{'metadata':{'labels':{'x':'1','y':'2'}}}", "{'metadata':{'labels':{'x':null}}}",
         "{'metadata':{'labels':{'y':'2'}}}", 0},
        {"{'spec':{'replicas':1,'a':{}}}", "{'spec':{'replicas':3}}", "{'spec':{'replicas':3,'a':{}}}", 0},
    };
    run_cases(cases, ARRAY_LEN(cases), merge_patch_apply);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json_patch),
        cmocka_unit_test(test_json_patch_limits),
        cmocka_unit_test(test_json_patch_depth),
        cmocka_unit_test(test_merge_patch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
