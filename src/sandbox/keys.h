/* Labels and annotations of the agents.x-k8s.io API (kubernetes-sigs/agent-sandbox v1beta1). */
#pragma once

#define KEY_PREFIX "agents.x-k8s.io/"
#define KEY_EXTENSIONS_PREFIX "extensions.agents.x-k8s.io/"

#define KEY_NAME_HASH KEY_PREFIX "sandbox-name-hash" /* on Pod, Service, PVC: the tracking label */
#define KEY_WARM_POOL KEY_PREFIX "warm-pool-sandbox"
#define KEY_TEMPLATE_REF_HASH KEY_PREFIX "sandbox-template-ref-hash"
#define KEY_CREATED_BY KEY_PREFIX "created-by"
#define KEY_ADOPTABLE KEY_PREFIX "adoptable"
#define KEY_POD_NAME KEY_PREFIX "pod-name" /* annotation on the Sandbox */
#define KEY_PROPAGATED_LABELS KEY_PREFIX "propagated-labels"
#define KEY_PROPAGATED_ANNOTATIONS KEY_PREFIX "propagated-annotations"
#define KEY_TRACE_CONTEXT "opentelemetry.io/trace-context"
