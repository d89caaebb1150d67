/* CEL by table: an expression, and its value as JSON or, behind '!', a part of its error. */
#include "test.h"

#include "schema_fixture.h"

#include "apiserver/cel/cel.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "base/timeutil.h"

static const char *const variables[] = {"self", "oldSelf", NULL};

static char *evaluate(const char *expression, const struct json *self, const struct json *schema)
{
    _cleanup_error_ struct error err = ERROR_INIT;
    _cleanup_(cel_free_p) struct cel_program *p = cel_compile(expression, variables, &err);
    struct cel_binding bindings[] = {{.value = self, .schema = schema_node_make(NULL, schema)}, {.unset = true}};
    struct cel_budget budget = {CEL_COST_MAX};
    _cleanup_json_ struct json *v = NULL;

    if (!p || cel_eval_json(p, bindings, &budget, &v, &err) < 0)
        return xasprintf("!%s", error_text(&err));
    return json_text(v);
}

static void expect(const char *expression, const struct json *self, const struct json *schema, const char *result)
{
    _cleanup_free_ char *text = evaluate(expression, self, schema);
    bool good = result[0] == '!' ? text[0] == '!' && strstr(text, result + 1) : streq(text, result);

    if (!good)
        fail_msg("%s\n  gives  %s\n  wanted %s", expression, text, result);
}

struct row {
    const char *expression, *result;
};

static void expect_all(const struct row *rows, size_t count, const char *self_text, const char *schema_text)
{
    _cleanup_json_ struct json *self = fixture_json(self_text),
                               *schema = schema_text ? fixture_json(schema_text) : NULL;

    for (size_t i = 0; i < count; i++)
        expect(rows[i].expression, self, schema, rows[i].result);
}
#define EXPECT_ALL(rows, self, schema) expect_all(rows, ARRAY_LEN(rows), self, schema)

static void test_literals(void **state UNUSED)
{
    static const struct row rows[] = {
        {"1", "1"},
        {"-9223372036854775808", "-9223372036854775808"},
        {"9223372036854775807", "9223372036854775807"},
        {"9223372036854775808", "!integer out of range"},
        {"0x1F", "31"},
        {"7u", "7"},
        {"1.5e3 == 1500.0", "true"},
        {".5 == 0.5", "true"},
        {"1x", "!invalid number"},
        {"'a\\n\\u00e9\\x41\\101'", "\"a\\néAA\""},
        {"\"it's\"", "\"it's\""},
        {"'''a'b\nc'''", "\"a'b\\nc\""},
        {"r'\\d'", "\"\\\\d\""},
        {"b'abc'", "\"abc\""},
        {"'\\q'", "!invalid escape"},
        {"'abc", "!unterminated string"},
        {"[1, 'a', [true, null]]", "[1,\"a\",[true,null]]"},
        {"[1, 2,]", "[1,2]"},
        {"{'a': 1, 'b': {'c': 2}}", "{\"a\":1,\"b\":{\"c\":2}}"},
        {"{'a': 1, 'a': 2}", "!repeated key"},
        {"{1: 'x', 2u: 'y', true: 'z'}", "{\"1\":\"x\",\"2\":\"y\",\"true\":\"z\"}"},
        {"{1.5: 'x'}", "!unsupported key"},
        {"// nothing\n1 // one", "1"},
        {"null", "null"},
        {"", "!unexpected end of expression"},
        {"1 +", "!unexpected end of expression"},
        {"1 2", "!unexpected '2'"},
        {"if", "!reserved identifier: if"},
        {"a", "!undeclared reference to 'a'"},
        {"nothing(1)", "!undeclared reference to 'nothing'"},
        {"size()", "!no matching overload for 'size'"},
        {"'a'.nothing()", "!undeclared reference to 'nothing'"},
        {"1 # 2", "!token recognition error"},
        {"self.\nx y", "!<input>:2:3: Syntax error: unexpected 'y'\n | x y\n | ..^"},
    };

    EXPECT_ALL(rows, "{}", NULL);
}

static void test_operators(void **state UNUSED)
{
    static const struct row rows[] = {
        {"1 + 2 * 3 - 4 / 2 % 2", "7"},
        {"(1 + 2) * 3", "9"},
        {"7 / -2", "-3"},
        {"-7 % 3", "-1"},
        {"1 / 0", "!division by zero"},
        {"1 % 0", "!modulus by zero"},
        {"1.0 / 0.0 > 1e300", "true"},
        {"9223372036854775807 + 1", "!integer overflow"},
        {"-(-9223372036854775808)", "!integer overflow"},
        {"--1", "1"},
        {"!!true", "true"},
        {"!1", "!no such overload"},
        {"1u - 2u", "!unsigned integer overflow"},
        {"1 + 1.0", "!no such overload"},
        {"1 == 1.0 && 1u == 1 && 1.0 == 1u", "true"},
        {"1 < 1.5 && 2u > 1 && -1 < 1u", "true"},
        {"9007199254740993 == 9007199254740992.0", "false"},
        {"1 == '1'", "false"},
        {"1 != '1'", "true"},
        {"1 < '1'", "!no such overload"},
        {"'a' < 'b' && 'a' <= 'a' && 'b' > 'a' && 'abc' < 'abd' && 'a' < 'aa'", "true"},
        {"false < true", "true"},
        {"'a' + 'b'", "\"ab\""},
        {"[1] + [2, 3]", "[1,2,3]"},
        {"[1, 2] == [1, 2.0]", "true"},
        {"[1, 2] == [2, 1]", "false"},
        {"{'a': [1]} == {'a': [1]}", "true"},
        {"{'a': 1} == {'a': 1, 'b': 2}", "false"},
        {"null == null && !(null == 1)", "true"},
        {"2 in [1, 2] && !(3 in [1, 2]) && 'a' in {'a': 1} && !('b' in {'a': 1})", "true"},
        {"true ? 1 : 2", "1"},
        {"false ? 1 : true ? 2 : 3", "2"},
        {"1 ? 2 : 3", "!no such overload"},
        {"true || 1 / 0 == 1", "true"},
        {"1 / 0 == 1 || true", "true"},
        {"false && 1 / 0 == 1", "false"},
        {"1 / 0 == 1 && false", "false"},
        {"1 / 0 == 1 || false", "!division by zero"},
        {"1 || false", "!no such overload"},
        {"1 || true", "true"},
        {"true && true && false || true && true", "true"},
        {"type(1) == int && type('') == string && type(1.0) == double && type([]) == list && type({}) == map", "true"},
        {"type(type(1)) == type && type(null) == null_type && type(b'') == bytes && type(1u) == uint", "true"},
    };

    EXPECT_ALL(rows, "{}", NULL);
}

static void test_members(void **state UNUSED)
{
    static const struct row rows[] = {
        {"self.a", "1"},
        {"self['a']", "1"},
        {"self.b.c[1]", "20"},
        {"self.x", "!no such key: x"},
        {"self['x']", "!no such key: x"},
        {"self.b.c[2]", "!index out of bounds: 2"},
        {"self.b.c[-1]", "!index out of bounds: -1"},
        {"self.b.c['a']", "!no such overload"},
        {"self.b.c[1.0]", "20"},
        {"self.a.b", "!no such overload"},
        {"has(self.a) && !has(self.x)", "true"},
        {"has(self.b.c)", "true"},
        {"has(self.x.y)", "!no such key: x"},
        {"has(self)", "!invalid argument to has() macro"},
        {"has(self.n)", "true"},
        {"self.n == null", "true"},
        {"self.foo__dash__bar", "2"},
        {"self.__namespace__", "3"},
        {"self.x__dot__y__slash__z", "4"},
        {"self.a__underscores__b", "5"},
        {"self.`foo-bar`", "2"},
        {"self.?x", "null"},
        {"self.?x.orValue(7)", "7"},
        {"self.?a.orValue(7)", "1"},
        {"self.?x.y.z.orValue('none')", "\"none\""},
        {"self.?b.c[?1].orValue(0)", "20"},
        {"self.b.c[?5].orValue(0)", "0"},
        {"self.?a.hasValue() && !self.?x.hasValue()", "true"},
        {"self.?x.value()", "!optional.none() dereference"},
        {"self.?x.or(self.?a).value()", "1"},
        {"self.?a.optMap(v, v + 1).orValue(0)", "2"},
        {"self.?x.optMap(v, v + 1).orValue(0)", "0"},
        {"self.?a.optFlatMap(v, optional.none()).hasValue()", "false"},
        {"[?self.?x, ?self.?a]", "[1]"},
        {"{?'x': self.?x, 'y': 2}", "{\"y\":2}"},
        {"optional.of(1) == optional.of(1) && optional.none() != optional.of(1)", "true"},
        {"optional.ofNonZeroValue(0).hasValue()", "false"},
        {"oldSelf", "!variable has no value"},
    };

    EXPECT_ALL(rows, "{'a':1,'b':{'c':[10,20]},'n':null,'foo-bar':2,'namespace':3,'x.y/z':4,'a__b':5}", NULL);
}

static void test_macros(void **state UNUSED)
{
    static const struct row rows[] = {
        {"self.l.all(x, x > 0)", "true"},
        {"self.l.all(x, x > 1)", "false"},
        {"self.l.exists(x, x == 3)", "true"},
        {"self.l.exists_one(x, x > 2)", "true"},
        {"self.l.existsOne(x, x > 1)", "false"},
        {"self.l.map(x, x * 2)", "[2,4,6]"},
        {"self.l.map(x, x > 1, x * 2)", "[4,6]"},
        {"self.l.filter(x, x != 2)", "[1,3]"},
        {"self.m.map(k, k)", "[\"a\",\"b\"]"},
        {"self.m.all(k, self.m[k] > 0)", "true"},
        {"self.m.filter(k, self.m[k] > 1)", "[\"b\"]"},
        {"self.l.all(i, v, v == i + 1)", "true"},
        {"self.m.exists(k, v, k == 'b' && v == 2)", "true"},
        {"self.l.transformList(i, v, i * v)", "[0,2,6]"},
        {"self.m.transformList(k, v, v > 1, k)", "[\"b\"]"},
        {"self.m.transformMap(k, v, v + 1)", "{\"a\":2,\"b\":3}"},
        {"self.m.transformMap(k, v, v > 1, v)", "{\"b\":2}"},
        {"self.l.all(x, x / 0 == 1)", "!division by zero"},
        {"self.l.all(x, x != 3 && 1 / (x - 1) > 0)", "false"},
        {"self.l.exists(x, 1 / (x - 1) == 1)", "true"},
        {"[[1, 2], [3]].all(l, l.all(x, x > 0))", "true"},
        {"[[1, 2], [3]].map(l, l.map(x, x + size(l)))", "[[3,4],[4]]"},
        {"[1].map(self, self)", "[1]"},
        {"[].all(x, false) && ![].exists(x, true)", "true"},
        {"self.l.all(1, true)", "!argument must be a simple name"},
        {"self.l.all(x.y, true)", "!argument must be a simple name"},
        {"(5).all(x, true)", "!no such overload"},
        {"self.l.all(x, x)", "!no such overload"},
        {"cel.bind(x, 3, x * x)", "9"},
        {"cel.bind(x, self.l, x.all(y, y in x))", "true"},
        {"x + self.l.map(x, x)[0]", "!undeclared reference to 'x'"},
    };

    EXPECT_ALL(rows, "{'l':[1,2,3],'m':{'a':1,'b':2}}", NULL);
}

static void test_strings(void **state UNUSED)
{
    static const struct row rows[] = {
        {"size('äöü') == 3 && 'äöü'.size() == 3 && size(b'abc') == 3", "true"},
        {"'hello'.contains('ell') && 'hello'.startsWith('he') && 'hello'.endsWith('lo')", "true"},
        {"'hello'.contains('') && !''.startsWith('a')", "true"},
        {"'hello'.matches('^h.*o$') && !'hello'.matches('^e')", "true"},
        {"matches('hello', 'ell')", "true"},
        {"'a\\n'.matches('a$')", "false"},
        {"'x'.matches('(')", "!invalid matches argument"},
        {"'x'.matches('(?=a)')", "!unsupported Perl syntax"},
        {"self.s.matches(self.re)", "true"},
        {"'abc'.find('b.')", "\"bc\""},
        {"'a1b22'.findAll('[0-9]+')", "[\"1\",\"22\"]"},
        {"'a1b22'.findAll('[0-9]+', 1)", "[\"1\"]"},
        {"'a,b,c'.split(',')", "[\"a\",\"b\",\"c\"]"},
        {"'a,b,c'.split(',', 2)", "[\"a\",\"b,c\"]"},
        {"'a,b'.split(',', 0)", "[]"},
        {"'äb'.split('')", "[\"ä\",\"b\"]"},
        {"''.split(',')", "[\"\"]"},
        {"['a', 'b'].join('-') + ['c', 'd'].join()", "\"a-bcd\""},
        {"[1].join()", "!no such overload"},
        {"'banana'.replace('an', 'x')", "\"bxxa\""},
        {"'banana'.replace('an', 'x', 1)", "\"bxana\""},
        {"'ab'.replace('', '-')", "\"-a-b-\""},
        {"'ÄbC'.lowerAscii() + 'aé'.upperAscii()", "\"ÄbcAé\""},
        {"'  a b\\t\\u00a0'.trim()", "\"a b\""},
        {"'äbc'.substring(1)", "\"bc\""},
        {"'äbc'.substring(0, 2)", "\"äb\""},
        {"'abc'.substring(4)", "!index out of range: 4"},
        {"'abc'.substring(2, 1)", "!invalid substring range"},
        {"'äbc'.charAt(1) + 'abc'.charAt(3)", "\"b\""},
        {"'abc'.charAt(4)", "!index out of range"},
        {"'äbcb'.indexOf('b') == 1 && 'äbcb'.indexOf('b', 2) == 3 && 'abc'.indexOf('x') == -1", "true"},
        {"'äbcb'.lastIndexOf('b') == 3 && 'äbcb'.lastIndexOf('b', 2) == 1", "true"},
        {"'aä'.reverse()", "\"äa\""},
        {"strings.quote('a\"b')", "\"\\\"a\\\\\\\"b\\\"\""},
        {"'%s is %d, %.2f, %x, %b, %%'.format(['a', 5, 1.5, 255, 5])", "\"a is 5, 1.50, ff, 101, %\""},
        {"'%s %s'.format([[1, 'a'], {'k': true}])", "\"[1,\\\"a\\\"] {\\\"k\\\":true}\""},
        {"'%d'.format(['a'])", "!could not format"},
        {"'%s'.format([])", "!out of range"},
        {"'%y'.format([1])", "!could not format"},
    };

    EXPECT_ALL(rows, "{'s':'hello','re':'l+'}", NULL);
}

static void test_conversions(void **state UNUSED)
{
    static const struct row rows[] = {
        {"int('42') + int(1.9) + int(3u) + int(timestamp('1970-01-01T00:01:00Z'))", "106"},
        {"int('4x')", "!cannot convert"},
        {"int(1e30)", "!integer overflow"},
        {"uint(5) == 5u && uint('7') == 7u", "true"},
        {"uint(-1)", "!unsigned integer overflow"},
        {"double('1.5') + double(1) == 2.5", "true"},
        {"double('x')", "!cannot convert"},
        {"string(1) + string(2u) + string(1.5) + string(true) + string('x') + string(b'y')", "\"121.5truexy\""},
        {"string(1e6) + ' ' + string(1e-7) + ' ' + string(100.0)", "\"1e+06 1e-07 100\""},
        {"bool('true') && !bool('false')", "true"},
        {"bool('maybe')", "!cannot convert"},
        {"dyn(1) == 1", "true"},
        {"string(b'\\xff')", "!invalid UTF-8"},
        {"'%s'.format([b'\\xff'])", "!could not format"},
        {"bytes('é').size()", "2"},
    };

    EXPECT_ALL(rows, "{}", NULL);
}

static void test_times(void **state UNUSED)
{
    static const struct row rows[] = {
        {"timestamp('2026-11-30T22:42:37Z')", "\"2026-11-30T22:42:37Z\""},
        {"timestamp('2026-11-30T22:42:37.5+01:30')", "\"2026-11-30T21:12:37.5Z\""},
        {"timestamp('9999-12-31T23:59:59Z') > timestamp('0001-01-01T00:00:00Z')", "true"},
        {"timestamp('2026-02-29T00:00:00Z')", "!invalid timestamp"},
        {"timestamp('2024-02-29T00:00:00Z') + duration('24h')", "\"2024-03-01T00:00:00Z\""},
        {"timestamp('2026-01-02T00:00:00Z') - timestamp('2026-01-01T00:00:00Z') == duration('24h')", "true"},
        {"timestamp('2026-01-01T00:00:00Z') - duration('1ns')", "\"2025-12-31T23:59:59.999999999Z\""},
        {"timestamp('9999-12-31T23:59:59Z') + duration('1s')", "!timestamp overflow"},
        {"duration('1h30m') + duration('1.5s')", "\"5401.5s\""},
        {"duration('-1m') < duration('0')", "true"},
        {"duration('1d')", "!invalid duration"},
        {"duration('90m').getHours() == 1 && duration('90m').getMinutes() == 90", "true"},
        {"duration('1.5s').getMilliseconds() == 500 && duration('90s').getSeconds() == 90", "true"},
        {"cel.bind(t, timestamp('2026-11-30T22:42:37.123Z'), [t.getFullYear(), t.getMonth(), t.getDate(), "
         "t.getDayOfMonth(), t.getDayOfWeek(), t.getDayOfYear(), t.getHours(), t.getMinutes(), t.getSeconds(), "
         "t.getMilliseconds()])",
         "[2026,10,30,29,1,333,22,42,37,123]"},
        {"timestamp('2026-11-30T22:42:37Z').getHours('+02:00')", "0"},
        {"timestamp('2026-11-30T22:42:37Z').getDate('02:00')", "1"},
        {"timestamp('2026-11-30T22:42:37Z').getHours('Mars')", "!unknown time zone"},
    };

    EXPECT_ALL(rows, "{}", NULL);
}

static void test_libraries(void **state UNUSED)
{
    static const struct row rows[] = {
        {"[1, 2, 2].isSorted() && ![2, 1].isSorted() && ['a', 'b'].isSorted()", "true"},
        {"[3, 1, 2].min() == 1 && [3, 1, 2].max() == 3 && [1, 2].sum() == 3 && [].sum() == 0", "true"},
        {"[1.5, 2.5].sum() == 4.0 && [duration('1s'), duration('2s')].sum() == duration('3s')", "true"},
        {"[].min()", "!min called on empty list"},
        {"[1, 'a'].max()", "!no such overload"},
        {"[1, 2, 1].indexOf(1) == 0 && [1, 2, 1].lastIndexOf(1) == 2 && [1].indexOf(2) == -1", "true"},
        {"sets.contains([1, 2, 3], [3, 1]) && !sets.contains([1], [2])", "true"},
        {"sets.equivalent([1, 2, 2], [2, 1]) && sets.intersects([1, 2], [2, 3]) && !sets.intersects([1], [2])", "true"},
        {"quantity('1Gi').compareTo(quantity('1024Mi')) == 0", "true"},
        {"quantity('500m').isLessThan(quantity('1')) && quantity('2').isGreaterThan(quantity('1500m'))", "true"},
        {"quantity('1Gi').add(quantity('1Gi')) == quantity('2Gi') && quantity('3').sub(1) == quantity('2')", "true"},
        {"quantity('2k').isInteger() && quantity('2k').asInteger() == 2000", "true"},
        {"quantity('500m').asInteger()", "!cannot convert value to integer"},
        {"quantity('-1').sign() == -1 && quantity('500m').asApproximateFloat() == 0.5", "true"},
        {"isQuantity('1.5Gi') && !isQuantity('x') && !isQuantity('1Q')", "true"},
        {"quantity('x')", "!not a quantity"},
        {"isURL('https://a.b:80/c?d=e') && isURL('/a') && !isURL('a') && !isURL('')", "true"},
        {"cel.bind(u, url('https://u@a.b:80/c%20d?x=1&y=2&x=3+4'), [u.getScheme(), u.getHost(), u.getHostname(), "
         "u.getPort(), u.getEscapedPath()])",
         "[\"https\",\"a.b:80\",\"a.b\",\"80\",\"/c%20d\"]"},
        {"url('https://a/?x=1&y=2&x=3+4').getQuery()", "{\"x\":[\"1\",\"3 4\"],\"y\":[\"2\"]}"},
        {"url('http://[::1]:80/').getHostname()", "\"::1\""},
        {"url('://x')", "!URL parse error"},
        {"isIP('10.0.0.1') && isIP('::1') && !isIP('10.0.0.1.1') && !isIP('::ffff:1.2.3.4') && !isIP('01.2.3.4')",
         "true"},
        {"ip('127.0.0.1').isLoopback() && ip('::1').isLoopback() && ip('127.0.0.1').family() == 4", "true"},
        {"ip('169.254.1.1').isLinkLocalUnicast() && ip('224.0.0.5').isLinkLocalMulticast()", "true"},
        {"ip('8.8.8.8').isGlobalUnicast() && !ip('127.0.0.1').isGlobalUnicast() && ip('::').isUnspecified()", "true"},
        {"ip.isCanonical('2001:db8::1') && !ip.isCanonical('2001:DB8::1')", "true"},
        {"string(ip('2001:DB8::1'))", "\"2001:db8::1\""},
        {"ip('x')", "!parse error"},
        {"cidr('10.0.0.0/8').containsIP('10.1.2.3') && !cidr('10.0.0.0/8').containsIP(ip('11.0.0.1'))", "true"},
        {"cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && !cidr('10.0.0.0/8').containsCIDR(cidr('0.0.0.0/0'))",
         "true"},
        {"string(cidr('10.1.2.3/8').masked()) + ' ' + string(cidr('10.1.2.3/8').ip())", "\"10.0.0.0/8 10.1.2.3\""},
        {"cidr('10.1.2.3/8').prefixLength() == 8 && !isCIDR('10.0.0.0/33') && !isCIDR('10.0.0.0')", "true"},
        {"!format.dns1123Label().validate('a-b').hasValue()", "true"},
        {"format.dns1123Label().validate('A').value()[0].startsWith('a lowercase RFC 1123 label')", "true"},
        {"format.named('date').value().validate('2026-02-30').value()", "[\"invalid date\"]"},
        {"format.named('nothing').hasValue()", "false"},
        {"!format.dns1123LabelPrefix().validate('a-').hasValue()", "true"},
    };

    EXPECT_ALL(rows, "{}", NULL);
}

static void test_schema_types(void **state UNUSED)
{
    static const char schema[] =
        "{'type':'object','properties':{'t':{'type':'string','format':'date-time'},'day':{'type':'string','format':"
        "'date'},'d':{'type':'string','format':'duration'},'n':{'type':'number'},'i':{'type':'integer'},"
        "'b':{'type':'string','format':'byte'},'p':{'x-kubernetes-int-or-string':true},"
        "'set':{'type':'array','x-kubernetes-list-type':'set','items':{'type':'string'}},"
        "'map':{'type':'array','x-kubernetes-list-type':'map','x-kubernetes-list-map-keys':['k'],'items':{'type':"
        "'object','properties':{'k':{'type':'string'},'v':{'type':'integer'}}}},"
        "'list':{'type':'array','items':{'type':'string'}}}}";
    static const char self[] =
        "{'t':'2026-01-01T00:00:00Z','day':'2026-01-02','d':'90s','n':1,'i':2,'b':'YWI=','p':'50%','set':['a','b'],"
        "'map':[{'k':'x','v':1},{'k':'y','v':2}],'list':['a','b']}";
    static const struct row rows[] = {
        {"self.t == timestamp('2026-01-01T01:00:00+01:00') && self.day > self.t", "true"},
        {"self.d == duration('1m30s')", "true"},
        {"type(self.n) == double && type(self.i) == int && self.n + 0.5 == 1.5", "true"},
        {"self.b == b'ab'", "true"},
        {"type(self.p) == string ? self.p.endsWith('%') : self.p > 0", "true"},
        {"self.set == ['b', 'a'] && self.list != ['b', 'a']", "true"},
        {"self.set + ['c', 'a']", "[\"a\",\"b\",\"c\"]"},
        {"self.list + ['a']", "[\"a\",\"b\",\"a\"]"},
        {"self.map.exists(e, e.k == 'y' && e.v == 2)", "true"},
    };

    EXPECT_ALL(rows, self, schema);
}

/* Two values of one schema: lists that are maps are equal whatever their order. */
static void test_old_self(void **state UNUSED)
{
    _cleanup_json_ struct json *schema =
        fixture_json("{'type':'object','properties':{'m':{'type':'array','x-kubernetes-list-"
                     "type':'map','x-kubernetes-list-map-keys':['k'],'items':{'type':'object'"
                     ",'properties':{'k':{'type':'string'}}}}}}");
    _cleanup_json_ struct json *a = fixture_json("{'m':[{'k':'x','v':1},{'k':'y'}]}"),
                               *b = fixture_json("{'m':[{'k':'y'},{'k':'x','v':1}]}");
    _cleanup_json_ struct json *c = fixture_json("{'m':[{'k':'y'},{'k':'x','v':2}]}");
    const struct json *olds[] = {b, c};
    _cleanup_(cel_free_p) struct cel_program *p = cel_compile("self.m == oldSelf.m", variables, NULL);
    struct schema_node node = schema_node_make(NULL, schema);

    assert_true(cel_mentions(p, "oldSelf"));
    for (size_t i = 0; i < 2; i++) {
        struct cel_binding bindings[] = {{.value = a, .schema = node}, {.value = olds[i], .schema = node}};
        struct cel_budget budget = {CEL_COST_MAX};
        bool equal;
        assert_int_equal(cel_eval_bool(p, bindings, &budget, &equal, NULL), 0);
        assert_int_equal(equal, i == 0);
    }
    _cleanup_(cel_free_p) struct cel_program *q =
        cel_compile("!oldSelf.hasValue() || self == oldSelf.value()", variables, NULL);
    struct cel_binding none[] = {{.value = a}, {.optional = true, .unset = true}};
    struct cel_budget budget = {CEL_COST_MAX};
    bool holds;
    assert_int_equal(cel_eval_bool(q, none, &budget, &holds, NULL), 0);
    assert_true(holds);
    none[1] = (struct cel_binding){.optional = true, .value = c};
    assert_int_equal(cel_eval_bool(q, none, &budget, &holds, NULL), 0);
    assert_false(holds);
}

static void test_check_schemas(void **state UNUSED)
{
    static const char schema_text[] =
        "{'type':'object','properties':{'a':{'type':'object','properties':{'b':{'type':'string'},'x-y':{'type':"
        "'string'}}},'l':{'type':'array','items':{'type':'object','properties':{'k':{'type':'string'}}}},'m':{'type':"
        "'object','additionalProperties':{'type':'object','properties':{'v':{}}}},'any':{'type':'object','x-kubernetes-"
        "preserve-unknown-fields':true},'n':{'type':'integer'},'d':{'type':'number'},'f':{'type':'boolean'},'t':{"
        "'type':'string','format':'date-time'},'u':{'type':'string','format':'duration'},'i':{'x-kubernetes-int-or-"
        "string':true},'z':{'type':'string','nullable':true}}}";
    static const struct row rows[] = {
        {"self.n > 1 && self.n > 1.5 && self.d == 1 && self.n != self.d", ""},
        {"self.n > 'a'", "found no matching overload for '_>_' applied to '(int, string)'"},
        {"'1' == self.n", "'_==_' applied to '(string, int)'"},
        {"self.n + self.a.b == 'x'", "'_+_' applied to '(int, string)'"},
        {"self.n * 2 == 4 && self.a.b + 'x' == '' && self.l + self.l == []", ""},
        {"self.a.b * 2 == 4", "'_*_' applied to '(string, int)'"},
        {"self.n", "must evaluate to a bool"},
        {"self.f", ""},
        {"!self.f || self.n", "expected type 'bool' but found 'int'"},
        {"self.f ? self.n : self.d", ""},
        {"self.f ? self.n : self.n", "must evaluate to a bool"},
        {"self.n ? true : false", "expected type 'bool' but found 'int'"},
        {"self.l.all(x, x.k)", "expected type 'bool' but found 'string'"},
        {"self.l.all(i, x, x.k)", "expected type 'bool' but found 'string'"},
        {"self.l.map(x, x.k).size() == 1", ""},
        {"self.n.startsWith('a')", "'startsWith' applied to 'int'"},
        {"self.t > timestamp('2020-01-01T00:00:00Z') && self.t + self.u > self.t && self.t - self.t < self.u", ""},
        {"self.t == 'x'", "'_==_' applied to '(google.protobuf.Timestamp, string)'"},
        {"self.i == 1 || self.i == 'x' || self.z == null || self.z == 'x'", ""},
        {"self.?n.orValue(1) == 1 && self.?n == optional.of(1) && self.?a.b.orValue('') == ''", ""},
        {"dyn(self.n) == 'a'", ""},
        {"self.m == {} && self.l == [] && self.m != self.l", "'_!=_' applied to '(map, list)'"},
        {"self.a.b == oldSelf.a.b", ""},
        {"self.a.x__dash__y == ''", ""},
        {"self.a.c == ''", "undefined field 'c'"},
        {"has(self.a.c)", "undefined field 'c'"},
        {"oldSelf.y == 1", "undefined field 'y'"},
        {"self.l.all(x, x.k == '')", ""},
        {"self.l.all(x, x.z == '')", "undefined field 'z'"},
        {"self.l.all(i, x, x.k == '' && i == 0)", ""},
        {"self.l.all(i, x, x.z == '')", "undefined field 'z'"},
        {"self.l.filter(x, x.k == '').all(y, y.z == '')", "undefined field 'z'"},
        {"self.l[0].z == ''", "undefined field 'z'"},
        {"self.m.foo.v == 1", ""},
        {"self.m['foo'].w == 1", "undefined field 'w'"},
        {"self.m.all(k, self.m[k].v == 1)", ""},
        {"self.m.all(k, v, v.w == 1)", "undefined field 'w'"},
        {"self.any.x.y == 1", ""},
        {"cel.bind(x, self.a, x.c == 1)", "undefined field 'c'"},
        {"self.?a.?c.hasValue()", "undefined field 'c'"},
    };
    _cleanup_json_ struct json *schema = fixture_json(schema_text);
    struct schema_node node = schema_node_make(NULL, schema), nodes[] = {node, node};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        _cleanup_error_ struct error err = ERROR_INIT;
        _cleanup_(cel_free_p) struct cel_program *p = cel_compile(rows[i].expression, variables, &err);
        if (!p)
            fail_msg("%s: %s", rows[i].expression, error_text(&err));
        int r = cel_check_schemas(p, nodes, "bool", &err);
        if (*rows[i].result ? r == 0 || !strstr(error_text(&err), rows[i].result) : r != 0)
            fail_msg("%s: %s", rows[i].expression, r ? error_text(&err) : "accepted");
    }
}

/* What is hostile ends soon, with an error. */
static void test_limits(void **state UNUSED)
{
    static const struct row rows[] = {
        {"self.l.all(a, self.l.all(b, self.l.all(c, self.l.all(d, true))))", "!cost limit exceeded"},
        {"self.l.all(a, self.l.all(b, self.l.exists(c, self == [])) || true)", "!cost limit exceeded"},
        {"self.l.map(a, self.s).map(a, self.l.map(b, a + a)).size() >= 0", "!cost limit exceeded"},
        {"self.l.map(a, self.s.replace('a', self.s)).size() >= 0", "!cost limit exceeded"},
        {"self.s.matches('^(a+)+$')", "!takes too long"},
        {"self.s.matches('(a+)+$')", "!takes too long"},
        {"self.l.all(x, self.s.matches('^(a+)+$'))", "!cost limit exceeded"},
    };
    _cleanup_json_ struct json *self = json_object_make();
    _cleanup_free_ char *s = xcalloc(1, 10002), *deep = xcalloc(1, 60001), *wide = xcalloc(1, 60001);

    memset(s, 'a', 10000);
    s[10000] = 'b';
    json_set_str(self, "s", s);
    for (int i = 0; i < 1000; i++)
        json_push(json_ensure_array(self, "l"), json_int(i));
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int64_t start = time_monotonic_ns();
        expect(rows[i].expression, self, NULL, rows[i].result);
        int64_t ms = (time_monotonic_ns() - start) / NSEC_PER_MSEC;
        if (ms > 5000)
            fail_msg("%s takes %d ms", rows[i].expression, (int)ms);
    }
    memset(deep, '(', 60000);
    expect(deep, NULL, NULL, "!too deep");
    memset(deep, '[', 60000);
    expect(deep, NULL, NULL, "!too deep");
    memset(deep, '-', 60000);
    expect(deep, NULL, NULL, "!unexpected end");
    for (int i = 0; i < 60000; i += 2)
        memcpy(wide + i, "1+", 2);
    expect(wide, NULL, NULL, "!too large");
    for (int i = 0; i < 60000; i += 2)
        memcpy(deep + i, "a.", 2);
    expect(deep, NULL, NULL, "!too large");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_literals), cmocka_unit_test(test_operators),     cmocka_unit_test(test_members),
        cmocka_unit_test(test_macros),   cmocka_unit_test(test_strings),       cmocka_unit_test(test_conversions),
        cmocka_unit_test(test_times),    cmocka_unit_test(test_libraries),     cmocka_unit_test(test_schema_types),
        cmocka_unit_test(test_old_self), cmocka_unit_test(test_check_schemas), cmocka_unit_test(test_limits),
    };

    return cmocka_run_group_tests_name("cel", tests, NULL, NULL);
}
