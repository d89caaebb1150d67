#include "apiserver/encode.h"

#include "apiserver/proto.h"
#include "base/memory.h"
#include "wire/yaml.h"

void encode_object(const struct json *object, enum answer_encoding *encoding, struct strbuf *out)
{
    _cleanup_free_ char *yaml = *encoding == ENCODING_YAML ? yaml_text(object) : NULL;

    if (yaml) {
        strbuf_adds(out, yaml);
        return;
    }
    if (*encoding == ENCODING_PROTOBUF && proto_encode(object, out, NULL) == 0)
        return;
    *encoding = ENCODING_JSON;
    json_write(object, out);
    strbuf_addc(out, '\n');
}
