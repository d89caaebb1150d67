/* Pruning, defaults, validation and rules by table. JSON is written with ' for ". */
#include "test.h"

#include "schema_fixture.h"

#include "apiserver/structural.h"
#include "apiserver/structural_check.h"
#include "base/memory.h"
#include "base/strutil.h"
#include "base/timeutil.h"

static void note(void *arg, const char *path)
{
    strbuf_addf(arg, "%s;", path);
}

static void test_prune_and_default(void **state UNUSED)
{
    static const struct {
        const char *schema, *value, *result, *unknown;
    } cases[] = {
        {"{'type':'object','properties':{'a':{'type':'string'},'l':{'type':'array','items':{'type':'object','"
         "properties':{'x':{}}}}}}",
         "{'a':'1','b':2,'l':[{'x':1,'y':2}]}", "{'a':'1','l':[{'x':1}]}", "b;l[0].y;"},
        {"{'type':'object','x-kubernetes-preserve-unknown-fields':true,'properties':{'a':{'type':'object','properties':"
         "{}}}}",
         "{'a':{'z':1},'b':2}", "{'a':{},'b':2}", "a.z;"},
        {"{'type':'object','additionalProperties':{'type':'object','properties':{'x':{}}}}", "{'k':{'x':1,'y':2}}",
         "{'k':{'x':1}}", "k.y;"},
        {"{'type':'object','properties':{'a':{'type':'string','default':'d'},'o':{'type':'object','properties':{'p':{'"
         "default':1}}},"
         "'q':{'type':'object','default':{},'properties':{'r':{'default':true}}}}}",
         "{}", "{'a':'d','q':{'r':true}}", ""},
        {"{'type':'object','properties':{'a':{'type':'string','default':'d'},'n':{'type':'string','nullable':true,'"
         "default':'x'},'z':{'type':'string'}}}",
         "{'a':null,'n':null,'z':null}", "{'n':null,'a':'d'}", ""},
        {"{'type':'array','items':{'type':'object','properties':{'protocol':{'default':'TCP'}}}}",
         "[{},{'protocol':'UDP'}]", "[{'protocol':'TCP'},{'protocol':'UDP'}]", ""},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_json_ struct json *schema = fixture_json(cases[i].schema), *value = fixture_json(cases[i].value);
        _cleanup_json_ struct json *before = json_copy(value), *wanted = fixture_json(cases[i].result);
        _cleanup_(strbuf_free) struct strbuf unknown = {0};
        _cleanup_(structural_set_free_p) struct structural_set *set = structural_set_new(NULL);
        _cleanup_(structural_schema_free_p) struct structural_schema *node = structural_compile(set, schema, false);
        _cleanup_json_ struct json *pruned = structural_prune(node, value, note, &unknown);
        _cleanup_json_ struct json *filled = structural_default(node, pruned);
        _cleanup_free_ char *text = json_text(filled);

        if (!json_equal(filled, wanted))
            print_error("case %zu: %s\n", i, text);
        assert_true(json_equal(filled, wanted));
        assert_true(json_equal(value, before)); /* shared values are never changed */
        assert_string_equal(strbuf_str(&unknown), cases[i].unknown);
    }
}

static char *errors_of(const char *schema_text, const char *value_text, const char *old_text)
{
    _cleanup_json_ struct json *schema = fixture_json(schema_text), *value = fixture_json(value_text);
    _cleanup_json_ struct json *old = old_text ? fixture_json(old_text) : NULL;
    _cleanup_(field_errors_clear) struct field_errors errors = {0};
    struct strbuf b = {0};

    _cleanup_(structural_set_free_p) struct structural_set *set = structural_set_new(NULL);
    _cleanup_(structural_schema_free_p) struct structural_schema *compiled = structural_compile(set, schema, false);
    structural_validate(compiled, value, old, &errors);
    for (size_t i = 0; i < errors.count; i++)
        strbuf_addf(&b, "%s%s: %s", i ? "; " : "", errors.items[i].field, errors.items[i].message);
    return strbuf_detach(&b);
}

static void test_validate(void **state UNUSED)
{
    static const struct {
        const char *schema, *value, *old, *errors;
    } cases[] = {
        {"{'type':'object','properties':{'n':{'type':'integer','minimum':0}}}", "{'n':1}", NULL, ""},
        {"{'type':'object','properties':{'n':{'type':'integer','minimum':0}}}", "{'n':-1}", NULL,
         "n: Invalid value: -1: n in body should be greater than or equal to 0"},
        {"{'type':'object','properties':{'n':{'type':'integer'}}}", "{'n':'x'}", NULL,
         "n: Invalid value: \"string\": n in body must be of type integer: \"string\""},
        {"{'type':'object','required':['a'],'properties':{'a':{}}}", "{}", NULL, "a: Required value"},
        {"{'type':'object','properties':{'s':{'enum':['S','M']}}}", "{'s':'XXL'}", NULL,
         "s: Unsupported value: \"XXL\": supported values: \"S\", \"M\""},
        {"{'type':'object','properties':{'s':{'type':'string','maxLength':2}}}", "{'s':'äöü'}", NULL,
         "s: Too long: may not be more than 2 bytes"},
        {"{'type':'object','properties':{'t':{'type':'string','format':'date-time'}}}", "{'t':'tomorrow'}", NULL,
         "t: Invalid value: \"tomorrow\": t in body must be of type date-time: \"tomorrow\""},
        {"{'type':'array','x-kubernetes-list-type':'set','items':{'type':'string'}}", "['a','b','a']", NULL,
         "[2]: Duplicate value: \"a\""},
        {"{'type':'array','x-kubernetes-list-type':'map','x-kubernetes-list-map-keys':['name'],'items':{'type':'object'"
         ",'properties':{'name':{}}}}",
         "[{'name':'a'},{'name':'a'}]", NULL, "[1]: Duplicate value: {\"name\":\"a\"}"},
        {"{'type':'array','maxItems':1}", "[1,2]", NULL, "<nil>: Too many: 2: must have at most 1 items"},
        {"{'x-kubernetes-int-or-string':true}", "'5'", NULL, ""},
        {"{'oneOf':[{'type':'integer'},{'type':'string'}]}", "true", NULL,
         "<nil>: Invalid value: \"\": \"\" must validate one and only one schema (oneOf). Found none valid; <nil>: "
         "Invalid value: \"boolean\":  in body must be of type integer: \"boolean\""},
        /* What was wrong before and has not changed is let be. */
        {"{'type':'object','properties':{'n':{'type':'integer','minimum':0},'m':{'type':'integer'}}}", "{'n':-1,'m':2}",
         "{'n':-1,'m':1}", ""},
        {"{'type':'string','pattern':'^(a+)+$'}", "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab'",
         NULL, "*"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_free_ char *text = errors_of(cases[i].schema, cases[i].value, cases[i].old);
        if (streq(cases[i].errors, "*")) {
            assert_true(*text);
            continue;
        }
        if (!streq(text, cases[i].errors))
            print_error("case %zu: %s\n", i, text);
        assert_string_equal(text, cases[i].errors);
    }
}

#define IMMUTABLE                                                                                                      \
    "{'type':'object','x-kubernetes-validations':[{'message':'v is immutable','rule':'has(self.v) == has(oldSelf.v) "  \
    "&& "                                                                                                              \
    "(!has(self.v) || self.v == oldSelf.v)'}],'properties':{'v':{'type':'array'}}}"
#define RULE(r) "{'type':'object','x-kubernetes-validations':[{'rule':'" r "'}]}"

static void test_rules(void **state UNUSED)
{
    static const struct {
        const char *schema, *value, *old, *errors;
    } cases[] = {
        {IMMUTABLE, "{'v':[1]}", NULL, ""},
        {IMMUTABLE, "{'v':[1]}", "{'v':[1]}", ""},
        {IMMUTABLE, "{}", "{}", ""},
        {IMMUTABLE, "{'v':[2]}", "{'v':[1]}", "<nil>: Invalid value: \"object\": v is immutable"},
        {IMMUTABLE, "{}", "{'v':[1]}", "<nil>: Invalid value: \"object\": v is immutable"},
        {IMMUTABLE, "{'v':[1]}", "{}", "<nil>: Invalid value: \"object\": v is immutable"},
        {RULE("self.a < self.b"), "{'a':1,'b':2}", NULL, ""},
        {RULE("self.a < self.b"), "{'a':2,'b':2}", NULL,
         "<nil>: Invalid value: \"object\": failed rule: self.a < self.b"},
        {RULE("self.a <= 2 && self.l.size() == 2"), "{'a':2,'l':[1,2]}", NULL, ""},
        {RULE("has(self.a) ? self.a == 1 : true"), "{}", NULL, ""},
        {RULE("self.a"), "{'a':1}", NULL,
         "<nil>: Invalid value: \"object\": the expression gives int, not bool evaluating rule: self.a"},
        {RULE("self.x == 1"), "{}", NULL,
         "<nil>: Invalid value: \"object\": no such key: x evaluating rule: self.x == 1"},
        {RULE("self.l.all(x, x > 1)"), "{'l':[2]}", NULL, ""},
        {RULE("self.a == 1 ||"), "{'a':2}", NULL, "*"},
        {RULE("((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((true"), "{}", NULL, "*"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_free_ char *text = errors_of(cases[i].schema, cases[i].value, cases[i].old);
        if (streq(cases[i].errors, "*")) {
            assert_true(*text);
            continue;
        }
        if (!streq(text, cases[i].errors))
            print_error("case %zu: %s\n", i, text);
        assert_string_equal(text, cases[i].errors);
    }
    static const struct {
        const char *rule;
        bool holds;
    } texts[] = {{"self.t in ['x', 'y']", true},
                 {"self.t.startsWith('y') && self.t.matches('^y+$')", true},
                 {"self.t == \"x\"", false},
                 {"!(self.t in ['y'])", false},
                 {"self['t'].size() == 1", true},
                 {"size(self.t) > 1 || self.missing == 1", false},
                 {"false && self.missing == 1", false},
                 {"true || self.missing == 1", true}};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        _cleanup_json_ struct json *schema =
            json_build("{s:s, s:[{s:s}]}", "type", "object", "x-kubernetes-validations", "rule", texts[i].rule);
        _cleanup_json_ struct json *value = fixture_json("{'t':'y'}");
        _cleanup_(field_errors_clear) struct field_errors errors = {0};
        _cleanup_(structural_set_free_p) struct structural_set *set = structural_set_new(NULL);
        _cleanup_(structural_schema_free_p) struct structural_schema *compiled = structural_compile(set, schema, false);
        structural_validate(compiled, value, NULL, &errors);
        if (field_errors_empty(&errors) != texts[i].holds)
            print_error("%s\n", texts[i].rule);
        assert_int_equal(field_errors_empty(&errors), texts[i].holds);
    }
}

/* The one rule of Sandbox, on its real schema. */
static void test_sandbox_immutable(void **state UNUSED)
{
#define SANDBOX(spec)                                                                                                  \
    "{'apiVersion':'agents.x-k8s.io/v1beta1','kind':'Sandbox','metadata':{'name':'a'},'spec':{'podTemplate':{'spec':{" \
    "'containers':[{'name':'c','image':'i'}]}}" spec "}}"
#define CLAIMS(size)                                                                                                   \
    ",'volumeClaimTemplates':[{'metadata':{'name':'v'},'spec':{'accessModes':['ReadWriteOnce'],'resources':{"          \
    "'requests':{'storage':'" size "'}}}}]"
    static const char immutable[] = "spec: Invalid value: \"object\": volumeClaimTemplates is immutable";
    static const struct {
        const char *new, *old, *errors;
    } cases[] = {
        {SANDBOX(""), NULL, ""},
        {SANDBOX(CLAIMS("1Gi")), NULL, ""},
        {SANDBOX(""), SANDBOX(""), ""},
        {SANDBOX(CLAIMS("1Gi")), SANDBOX(CLAIMS("1Gi")), ""},
        {SANDBOX(CLAIMS("1Gi") ",'operatingMode':'Suspended'"), SANDBOX(CLAIMS("1Gi")), ""},
        {SANDBOX(CLAIMS("2Gi")), SANDBOX(CLAIMS("1Gi")), immutable},
        {SANDBOX(""), SANDBOX(CLAIMS("1Gi")), immutable},
        {SANDBOX(CLAIMS("1Gi")), SANDBOX(""), immutable},
        {SANDBOX(",'volumeClaimTemplates':[]"), SANDBOX(CLAIMS("1Gi")), immutable},
        {SANDBOX(",'volumeClaimTemplates':[]"), SANDBOX(""), immutable},
    };
    _cleanup_(structural_set_free_p) struct structural_set *set = structural_set_new(&fixture_context);
    _cleanup_(structural_schema_free_p) struct structural_schema *root =
        structural_compile(set, fixture_schema("agents.x-k8s.io/v1beta1", "Sandbox"), true);

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_json_ struct json *new = fixture_json(cases[i].new),
                                   *old = cases[i].old ? fixture_json(cases[i].old) : NULL;
        _cleanup_(field_errors_clear) struct field_errors errors = {0};
        structural_validate(root, new, old, &errors);
        _cleanup_free_ char *text =
            errors.count ? xasprintf("%s: %s", errors.items[0].field, errors.items[0].message) : xstrdup("");
        assert_string_equal(text, cases[i].errors);
        assert_true(errors.count <= 1);
    }
}

static void test_check_schema(void **state UNUSED)
{
    static const struct {
        const char *schema, *errors;
    } cases[] = {
        {"{'type':'object','properties':{'spec':{'type':'object','properties':{'n':{'type':'integer','default':1},'p':{"
         "'x-kubernetes-int-or-string':true,'anyOf':[{'type':'integer'},{'type':'string'}],'pattern':'^[0-9]+%?$'}}},"
         "'metadata':{'type':'object','properties':{'name':{'type':'string','maxLength':10}}}}}",
         ""},
        {"{'properties':{'a':{}}}", "S.type: Required value: must not be empty at the root; S.properties[a].type: "
                                    "Required value: must not be empty for specified object fields"},
        {"{'type':'string'}", "S.type: Invalid value: \"string\": must be object at the root"},
        {"{'type':'object','properties':{'a':{'type':'array','items':{}},'b':{'type':'array'},'c':{'type':'null'},'d':{"
         "'type':'float'}}}",
         "S.properties[a].items.type: Required value: must not be empty for specified array items; "
         "S.properties[b].items: Required value: must be specified; S.properties[c].type: Forbidden: type cannot be "
         "set "
         "to null, use nullable as an alternative; S.properties[d].type: Unsupported value: \"float\": supported "
         "values: \"array\", \"boolean\", \"integer\", \"number\", \"object\", \"string\""},
        {"{'type':'object','$ref':'#/"
         "x','properties':{'a':{'type':'array','uniqueItems':true,'items':{'type':'string'}},"
         "'b':{'type':'object','properties':{'c':{'type':'string'}},'additionalProperties':false}}}",
         "S.$ref: Forbidden: $ref is not supported; S.properties[a].uniqueItems: Forbidden: uniqueItems cannot be set "
         "to true since the runtime complexity becomes quadratic; S.properties[b].additionalProperties: Forbidden: "
         "additionalProperties and properties are mutual exclusive"},
        {"{'type':'object','properties':{'a':{'type':'string'}},'oneOf':[{'required':['a']},{'properties':{'a':{'type':"
         "'string'},'b':{'pattern':'('}}}]}",
         "S.oneOf[1].properties[a].type: Forbidden: must be empty to be structural; S.oneOf[1].properties[b]: Required "
         "value: must also be described outside of allOf, anyOf, oneOf and not; S.oneOf[1].properties[b].pattern: "
         "Invalid value: \"(\": must be a valid regular expression, but isn't: error parsing regexp: missing closing "
         "parenthesis: `(`"},
        {"{'type':'object','properties':{'metadata':{'type':'object','properties':{'labels':{'type':'object'}}}}}",
         "S.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata "
         "is implicitly specified"},
        {"{'type':'object','properties':{'l':{'type':'array','x-kubernetes-list-type':'map','x-kubernetes-list-map-"
         "keys':['k','x'],'items':{'type':'object','properties':{'k':{'type':'string'}}}}}}",
         "S.properties[l].items.properties[k].default: Required value: this property is in x-kubernetes-list-map-keys, "
         "so it must have a default or be a required property; S.properties[l].x-kubernetes-list-map-keys[1]: Invalid "
         "value: \"x\": entries must all be names of item properties"},
        {"{'type':'object','properties':{'o':{'type':'object','default':{'n':'x','z':1},'properties':{'n':{'type':"
         "'integer'}}}}}",
         "S.properties[o].default: Invalid value: {\"n\":\"x\",\"z\":1}: must not have unknown fields: z; "
         "S.properties[o].default.n: Invalid value: \"string\": n in body must be of type integer: \"string\""},
        {"{'type':'object','properties':{'a':{'type':'integer'}},'x-kubernetes-validations':[{'rule':'self.a > 0 && "
         "self.a == oldSelf.a'},{'rule':'self.b == 1'},{'rule':'1 + 1'},{'rule':'size(self.a)'},{'rule':'x','reason':"
         "'No'}]}",
         "S.x-kubernetes-validations[1].rule: Invalid value: \"self.b == 1\": compilation failed: ERROR: "
         "<input>:1:5: undefined field 'b'\n | self.b == 1\n | ....^; S.x-kubernetes-validations[3].rule: Invalid "
         "value: \"size(self.a)\": must evaluate to a bool; S.x-kubernetes-validations[4].rule: Invalid value: "
         "\"x\": compilation failed: ERROR: <input>:1:1: undeclared reference to 'x' (in container '')\n | x\n | "
         "^; S.x-kubernetes-validations[4].reason: Unsupported value: \"No\": supported values: "
         "\"FieldValueInvalid\", \"FieldValueForbidden\", \"FieldValueRequired\", \"FieldValueDuplicate\""},
        {"{'type':'object','properties':{'l':{'type':'array','items':{'type':'string','x-kubernetes-validations':[{"
         "'rule':'self == oldSelf'}]}}}}",
         "S.properties[l].items.x-kubernetes-validations[0].rule: Invalid value: \"self == oldSelf\": oldSelf cannot "
         "be used on the uncorrelatable portion of the schema"},
        {"{'type':'object','properties':{'e':{'type':'object','x-kubernetes-embedded-resource':true}}}",
         "S.properties[e].properties: Required value: must not be empty if x-kubernetes-embedded-resource is true "
         "without x-kubernetes-preserve-unknown-fields"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        _cleanup_json_ struct json *schema = fixture_json(cases[i].schema);
        _cleanup_(field_errors_clear) struct field_errors errors = {0};
        _cleanup_(strbuf_free) struct strbuf b = {0};
        structural_check_schema(schema, "S", &errors);
        for (size_t k = 0; k < errors.count; k++)
            strbuf_addf(&b, "%s%s: %s", k ? "; " : "", errors.items[k].field, errors.items[k].message);
        assert_string_equal(strbuf_str(&b), cases[i].errors);
    }
    const struct json *crds = resource_table_bundled_crds(fixture_table);
    for (size_t i = 0; i < json_size(crds); i++) {
        const struct json *version = json_item(json_at(json_item(crds, i), "spec", "versions", NULL), 0);
        _cleanup_(field_errors_clear) struct field_errors errors = {0};
        structural_check_schema(json_at(version, "schema", "openAPIV3Schema", NULL), "S", &errors);
        if (errors.count)
            fail_msg("%s: %s", errors.items[0].field, errors.items[0].message);
    }
}

/* Hostile texts for a hostile pattern, many of them. */
static void test_hard_patterns(void **state UNUSED)
{
    _cleanup_json_ struct json *schema = fixture_json("{'type':'array','items':{'type':'string','pattern':'^(a+)+$'}}");
    _cleanup_json_ struct json *value = json_array_make();
    _cleanup_(field_errors_clear) struct field_errors errors = {0};
    _cleanup_(structural_set_free_p) struct structural_set *set = structural_set_new(NULL);
    _cleanup_(structural_schema_free_p) struct structural_schema *compiled = structural_compile(set, schema, false);
    _cleanup_free_ char *text = xcalloc(1, 10002);

    memset(text, 'a', 10000);
    text[10000] = 'b';
    for (int i = 0; i < 1000; i++)
        json_push(value, json_string(text));
    int64_t start = time_monotonic_ns();
    structural_validate(compiled, value, NULL, &errors);
    assert_true(time_monotonic_ns() - start < NSEC_PER_SEC); /* some 40 ms */
    assert_int_equal(errors.count, FIELD_ERRORS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prune_and_default),
        cmocka_unit_test(test_validate),
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_sandbox_immutable),
        cmocka_unit_test(test_check_schema),
        cmocka_unit_test(test_hard_patterns),
    };
    return cmocka_run_group_tests_name("structural", tests, fixture_open, fixture_close);
}
