/* The messages of Kubernetes' API as its protobuf encoding numbers them: see proto.h for how to read the fields. */
#include "apiserver/proto_internal.h"

/* clang-format off */
const struct proto_message proto_messages[] = {
    {"apiextensions/v1.CustomResourceColumnDefinition",
     "1 name s!, 2 type s!, 3 format s, 4 description s, 5 priority i32, 6 jsonPath s!"},
    {"apiextensions/v1.CustomResourceConversion", "1 strategy s!, 2 webhook WebhookConversion*"},
    {"apiextensions/v1.CustomResourceDefinition",
     "1 metadata ObjectMeta, 2 spec CustomResourceDefinitionSpec!"
     ", 3 status CustomResourceDefinitionStatus"},
    {"apiextensions/v1.CustomResourceDefinitionCondition",
     "1 type s!, 2 status s!, 3 lastTransitionTime Time, 4 reason s, 5 message s"},
    {"apiextensions/v1.CustomResourceDefinitionNames",
     "1 plural s!, 2 singular s, 3 shortNames []s, 4 kind s!, 5 listKind s, 6 categories []s"},
    {"apiextensions/v1.CustomResourceDefinitionSpec",
     "1 group s!, 3 names CustomResourceDefinitionNames!, 4 scope s!"
     ", 7 versions []CustomResourceDefinitionVersion!, 9 conversion CustomResourceConversion*"
     ", 10 preserveUnknownFields b"},
    {"apiextensions/v1.CustomResourceDefinitionStatus",
     "1 conditions []CustomResourceDefinitionCondition!"
     ", 2 acceptedNames CustomResourceDefinitionNames!, 3 storedVersions []s!"},
    {"apiextensions/v1.CustomResourceDefinitionVersion",
     "1 name s!, 2 served b!, 3 storage b!, 4 schema CustomResourceValidation*"
     ", 5 subresources CustomResourceSubresources*"
     ", 6 additionalPrinterColumns []CustomResourceColumnDefinition, 7 deprecated b"
     ", 8 deprecationWarning s*, 9 selectableFields []SelectableField"},
    {"apiextensions/v1.CustomResourceSubresourceScale",
     "1 specReplicasPath s!, 2 statusReplicasPath s!, 3 labelSelectorPath s*"},
    {"apiextensions/v1.CustomResourceSubresourceStatus", ""},
    {"apiextensions/v1.CustomResourceSubresources",
     "1 status CustomResourceSubresourceStatus*, 2 scale CustomResourceSubresourceScale*"},
    {"apiextensions/v1.CustomResourceValidation", "1 openAPIV3Schema JSONSchemaProps*"},
    {"apiextensions/v1.ExternalDocumentation", "1 description s, 2 url s"},
    {"apiextensions/v1.JSON", "1 - y!"},
    {"apiextensions/v1.JSONSchemaProps",
     "1 id s, 2 $schema s, 3 $ref s*, 4 description s, 5 type s, 6 format s, 7 title s"
     ", 8 default JSON*, 9 maximum double*, 10 exclusiveMaximum b, 11 minimum double*"
     ", 12 exclusiveMinimum b, 13 maxLength i64*, 14 minLength i64*, 15 pattern s, 16 maxItems i64*"
     ", 17 minItems i64*, 18 uniqueItems b, 19 multipleOf double*, 20 enum []JSON"
     ", 21 maxProperties i64*, 22 minProperties i64*, 23 required []s"
     ", 24 items JSONSchemaPropsOrArray*, 25 allOf []JSONSchemaProps, 26 oneOf []JSONSchemaProps"
     ", 27 anyOf []JSONSchemaProps, 28 not JSONSchemaProps*, 29 properties {}JSONSchemaProps"
     ", 30 additionalProperties JSONSchemaPropsOrBool*, 31 patternProperties {}JSONSchemaProps"
     ", 32 dependencies {}JSONSchemaPropsOrStringArray, 33 additionalItems JSONSchemaPropsOrBool*"
     ", 34 definitions {}JSONSchemaProps, 35 externalDocs ExternalDocumentation*, 36 example JSON*"
     ", 37 nullable b, 38 x-kubernetes-preserve-unknown-fields b*, 39 x-kubernetes-embedded-resource b"
     ", 40 x-kubernetes-int-or-string b, 41 x-kubernetes-list-map-keys []s"
     ", 42 x-kubernetes-list-type s*, 43 x-kubernetes-map-type s*"
     ", 44 x-kubernetes-validations []ValidationRule"},
    {"apiextensions/v1.JSONSchemaPropsOrArray",
     "1 schema JSONSchemaProps, 2 jSONSchemas []JSONSchemaProps"},
    {"apiextensions/v1.JSONSchemaPropsOrBool", "1 allows b, 2 schema JSONSchemaProps"},
    {"apiextensions/v1.JSONSchemaPropsOrStringArray", "1 schema JSONSchemaProps, 2 property []s"},
    {"apiextensions/v1.SelectableField", "1 jsonPath s!"},
    {"apiextensions/v1.ServiceReference", "1 namespace s!, 2 name s!, 3 path s*, 4 port i32*"},
    {"apiextensions/v1.ValidationRule",
     "1 rule s!, 2 message s, 3 messageExpression s, 4 reason s*, 5 fieldPath s, 6 optionalOldSelf b*"},
    {"apiextensions/v1.WebhookClientConfig", "1 service ServiceReference*, 2 caBundle y, 3 url s*"},
    {"apiextensions/v1.WebhookConversion",
     "2 clientConfig WebhookClientConfig*, 3 conversionReviewVersions []s!"},
    {"apps/v1.ControllerRevision", "1 metadata ObjectMeta, 2 data RawExtension, 3 revision i64!"},
    {"authentication/v1.BoundObjectReference", "1 kind s, 2 apiVersion s, 3 name s, 4 uid s"},
    {"authentication/v1.ExtraValue", "1 items []s"},
    {"authentication/v1.SelfSubjectReview",
     "1 metadata ObjectMeta, 2 status SelfSubjectReviewStatus"},
    {"authentication/v1.SelfSubjectReviewStatus", "1 userInfo UserInfo"},
    {"authentication/v1.TokenRequest",
     "1 metadata ObjectMeta, 2 spec TokenRequestSpec!, 3 status TokenRequestStatus"},
    {"authentication/v1.TokenRequestSpec",
     "1 audiences []s!, 3 boundObjectRef BoundObjectReference*!, 4 expirationSeconds i64*!"},
    {"authentication/v1.TokenRequestStatus", "1 token s!, 2 expirationTimestamp Time!"},
    {"authentication/v1.TokenReview",
     "1 metadata ObjectMeta, 2 spec TokenReviewSpec!, 3 status TokenReviewStatus"},
    {"authentication/v1.TokenReviewSpec", "1 token s, 2 audiences []s"},
    {"authentication/v1.TokenReviewStatus",
     "1 authenticated b, 2 user UserInfo, 3 error s, 4 audiences []s"},
    {"authentication/v1.UserInfo", "1 username s, 2 uid s, 3 groups []s, 4 extra {}ExtraValue"},
    {"authorization/v1.ExtraValue", "1 items []s"},
    {"authorization/v1.FieldSelectorAttributes",
     "1 rawSelector s, 2 requirements []FieldSelectorRequirement"},
    {"authorization/v1.LabelSelectorAttributes",
     "1 rawSelector s, 2 requirements []LabelSelectorRequirement"},
    {"authorization/v1.LocalSubjectAccessReview",
     "1 metadata ObjectMeta, 2 spec SubjectAccessReviewSpec!, 3 status SubjectAccessReviewStatus"},
    {"authorization/v1.NonResourceAttributes", "1 path s, 2 verb s"},
    {"authorization/v1.NonResourceRule", "1 verbs []s!, 2 nonResourceURLs []s"},
    {"authorization/v1.ResourceAttributes",
     "1 namespace s, 2 verb s, 3 group s, 4 version s, 5 resource s, 6 subresource s, 7 name s"
     ", 8 fieldSelector FieldSelectorAttributes*, 9 labelSelector LabelSelectorAttributes*"},
    {"authorization/v1.ResourceRule",
     "1 verbs []s!, 2 apiGroups []s, 3 resources []s, 4 resourceNames []s"},
    {"authorization/v1.SelfSubjectAccessReview",
     "1 metadata ObjectMeta, 2 spec SelfSubjectAccessReviewSpec!, 3 status SubjectAccessReviewStatus"},
    {"authorization/v1.SelfSubjectAccessReviewSpec",
     "1 resourceAttributes ResourceAttributes*, 2 nonResourceAttributes NonResourceAttributes*"},
    {"authorization/v1.SelfSubjectRulesReview",
     "1 metadata ObjectMeta, 2 spec SelfSubjectRulesReviewSpec!, 3 status SubjectRulesReviewStatus"},
    {"authorization/v1.SelfSubjectRulesReviewSpec", "1 namespace s"},
    {"authorization/v1.SubjectAccessReview",
     "1 metadata ObjectMeta, 2 spec SubjectAccessReviewSpec!, 3 status SubjectAccessReviewStatus"},
    {"authorization/v1.SubjectAccessReviewSpec",
     "1 resourceAttributes ResourceAttributes*, 2 nonResourceAttributes NonResourceAttributes*"
     ", 3 user s, 4 groups []s, 5 extra {}ExtraValue, 6 uid s"},
    {"authorization/v1.SubjectAccessReviewStatus",
     "1 allowed b!, 2 reason s, 3 evaluationError s, 4 denied b"},
    {"authorization/v1.SubjectRulesReviewStatus",
     "1 resourceRules []ResourceRule!, 2 nonResourceRules []NonResourceRule!, 3 incomplete b!"
     ", 4 evaluationError s"},
    {"autoscaling/v1.Scale", "1 metadata ObjectMeta, 2 spec ScaleSpec, 3 status ScaleStatus"},
    {"autoscaling/v1.ScaleSpec", "1 replicas i32"},
    {"autoscaling/v1.ScaleStatus", "1 replicas i32!, 2 selector s"},
    {"coordination/v1.Lease", "1 metadata ObjectMeta, 2 spec LeaseSpec"},
    {"coordination/v1.LeaseSpec",
     "1 holderIdentity s*, 2 leaseDurationSeconds i32*, 3 acquireTime MicroTime*"
     ", 4 renewTime MicroTime*, 5 leaseTransitions i32*, 6 strategy s*, 7 preferredHolder s*"},
    {"core/v1.Affinity",
     "1 nodeAffinity NodeAffinity*, 2 podAffinity PodAffinity*, 3 podAntiAffinity PodAntiAffinity*"},
    {"core/v1.AppArmorProfile", "1 type s!, 2 localhostProfile s*"},
    {"core/v1.AttachedVolume", "1 name s!, 2 devicePath s!"},
    {"core/v1.Binding", "1 metadata ObjectMeta, 2 target ObjectReference!"},
    {"core/v1.CSIPersistentVolumeSource",
     "1 driver s!, 2 volumeHandle s!, 3 readOnly b, 4 fsType s, 5 volumeAttributes {}s"
     ", 6 controllerPublishSecretRef SecretReference*, 7 nodeStageSecretRef SecretReference*"
     ", 8 nodePublishSecretRef SecretReference*, 9 controllerExpandSecretRef SecretReference*"
     ", 10 nodeExpandSecretRef SecretReference*"},
    {"core/v1.CSIVolumeSource",
     "1 driver s!, 2 readOnly b*, 3 fsType s*, 4 volumeAttributes {}s"
     ", 5 nodePublishSecretRef LocalObjectReference*"},
    {"core/v1.Capabilities", "1 add []s, 2 drop []s"},
    {"core/v1.ClientIPConfig", "1 timeoutSeconds i32*"},
    {"core/v1.ClusterTrustBundleProjection",
     "1 name s*, 2 signerName s*, 3 labelSelector LabelSelector*, 4 path s!, 5 optional b*"},
    {"core/v1.ConfigMap", "1 metadata ObjectMeta, 2 data {}s, 3 binaryData {}y, 4 immutable b*"},
    {"core/v1.ConfigMapEnvSource", "1 localObjectReference LocalObjectReference~, 2 optional b*"},
    {"core/v1.ConfigMapKeySelector",
     "1 localObjectReference LocalObjectReference~, 2 key s!, 3 optional b*"},
    {"core/v1.ConfigMapProjection",
     "1 localObjectReference LocalObjectReference~, 2 items []KeyToPath, 4 optional b*"},
    {"core/v1.ConfigMapVolumeSource",
     "1 localObjectReference LocalObjectReference~, 2 items []KeyToPath, 3 defaultMode i32*"
     ", 4 optional b*"},
    {"core/v1.Container",
     "1 name s!, 2 image s, 3 command []s, 4 args []s, 5 workingDir s, 6 ports []ContainerPort"
     ", 7 env []EnvVar, 8 resources ResourceRequirements, 9 volumeMounts []VolumeMount"
     ", 10 livenessProbe Probe*, 11 readinessProbe Probe*, 12 lifecycle Lifecycle*"
     ", 13 terminationMessagePath s, 14 imagePullPolicy s, 15 securityContext SecurityContext*"
     ", 16 stdin b, 17 stdinOnce b, 18 tty b, 19 envFrom []EnvFromSource"
     ", 20 terminationMessagePolicy s, 21 volumeDevices []VolumeDevice, 22 startupProbe Probe*"
     ", 23 resizePolicy []ContainerResizePolicy, 24 restartPolicy s*"},
    {"core/v1.ContainerImage", "1 names []s!, 2 sizeBytes i64"},
    {"core/v1.ContainerPort",
     "1 name s, 2 hostPort i32, 3 containerPort i32!, 4 protocol s, 5 hostIP s"},
    {"core/v1.ContainerResizePolicy", "1 resourceName s!, 2 restartPolicy s!"},
    {"core/v1.ContainerState",
     "1 waiting ContainerStateWaiting*, 2 running ContainerStateRunning*"
     ", 3 terminated ContainerStateTerminated*"},
    {"core/v1.ContainerStateRunning", "1 startedAt Time"},
    {"core/v1.ContainerStateTerminated",
     "1 exitCode i32!, 2 signal i32, 3 reason s, 4 message s, 5 startedAt Time, 6 finishedAt Time"
     ", 7 containerID s"},
    {"core/v1.ContainerStateWaiting", "1 reason s, 2 message s"},
    {"core/v1.ContainerStatus",
     "1 name s!, 2 state ContainerState, 3 lastState ContainerState, 4 ready b!, 5 restartCount i32!"
     ", 6 image s!, 7 imageID s!, 8 containerID s, 9 started b*, 10 allocatedResources {}Quantity"
     ", 11 resources ResourceRequirements*, 12 volumeMounts []VolumeMountStatus"
     ", 13 user ContainerUser*, 14 allocatedResourcesStatus []ResourceStatus"},
    {"core/v1.ContainerUser", "1 linux LinuxContainerUser*"},
    {"core/v1.DaemonEndpoint", "1 Port i32!"},
    {"core/v1.DownwardAPIProjection", "1 items []DownwardAPIVolumeFile"},
    {"core/v1.DownwardAPIVolumeFile",
     "1 path s!, 2 fieldRef ObjectFieldSelector*, 3 resourceFieldRef ResourceFieldSelector*"
     ", 4 mode i32*"},
    {"core/v1.DownwardAPIVolumeSource", "1 items []DownwardAPIVolumeFile, 2 defaultMode i32*"},
    {"core/v1.EmptyDirVolumeSource", "1 medium s, 2 sizeLimit Quantity*"},
    {"core/v1.EndpointAddress",
     "1 ip s!, 2 targetRef ObjectReference*, 3 hostname s, 4 nodeName s*"},
    {"core/v1.EndpointPort", "1 name s, 2 port i32!, 3 protocol s, 4 appProtocol s*"},
    {"core/v1.EndpointSubset",
     "1 addresses []EndpointAddress, 2 notReadyAddresses []EndpointAddress, 3 ports []EndpointPort"},
    {"core/v1.Endpoints", "1 metadata ObjectMeta, 2 subsets []EndpointSubset"},
    {"core/v1.EnvFromSource",
     "1 prefix s, 2 configMapRef ConfigMapEnvSource*, 3 secretRef SecretEnvSource*"},
    {"core/v1.EnvVar", "1 name s!, 2 value s, 3 valueFrom EnvVarSource*"},
    {"core/v1.EnvVarSource",
     "1 fieldRef ObjectFieldSelector*, 2 resourceFieldRef ResourceFieldSelector*"
     ", 3 configMapKeyRef ConfigMapKeySelector*, 4 secretKeyRef SecretKeySelector*"},
    {"core/v1.EphemeralContainer",
     "1 ephemeralContainerCommon EphemeralContainerCommon~, 2 targetContainerName s"},
    {"core/v1.EphemeralContainerCommon",
     "1 name s!, 2 image s, 3 command []s, 4 args []s, 5 workingDir s, 6 ports []ContainerPort"
     ", 7 env []EnvVar, 8 resources ResourceRequirements, 9 volumeMounts []VolumeMount"
     ", 10 livenessProbe Probe*, 11 readinessProbe Probe*, 12 lifecycle Lifecycle*"
     ", 13 terminationMessagePath s, 14 imagePullPolicy s, 15 securityContext SecurityContext*"
     ", 16 stdin b, 17 stdinOnce b, 18 tty b, 19 envFrom []EnvFromSource"
     ", 20 terminationMessagePolicy s, 21 volumeDevices []VolumeDevice, 22 startupProbe Probe*"
     ", 23 resizePolicy []ContainerResizePolicy, 24 restartPolicy s*"},
    {"core/v1.EphemeralVolumeSource", "1 volumeClaimTemplate PersistentVolumeClaimTemplate*"},
    {"core/v1.Event",
     "1 metadata ObjectMeta!, 2 involvedObject ObjectReference!, 3 reason s, 4 message s"
     ", 5 source EventSource, 6 firstTimestamp Time, 7 lastTimestamp Time, 8 count i32, 9 type s"
     ", 10 eventTime MicroTime, 11 series EventSeries*, 12 action s, 13 related ObjectReference*"
     ", 14 reportingComponent s!, 15 reportingInstance s!"},
    {"core/v1.EventSeries", "1 count i32, 2 lastObservedTime MicroTime"},
    {"core/v1.EventSource", "1 component s, 2 host s"},
    {"core/v1.ExecAction", "1 command []s"},
    {"core/v1.GRPCAction", "1 port i32!, 2 service s*!"},
    {"core/v1.HTTPGetAction",
     "1 path s, 2 port IntOrString!, 3 host s, 4 scheme s, 5 httpHeaders []HTTPHeader"},
    {"core/v1.HTTPHeader", "1 name s!, 2 value s!"},
    {"core/v1.HostAlias", "1 ip s!, 2 hostnames []s"},
    {"core/v1.HostIP", "1 ip s!"},
    {"core/v1.HostPathVolumeSource", "1 path s!, 2 type s*"},
    {"core/v1.ImageVolumeSource", "1 reference s, 2 pullPolicy s"},
    {"core/v1.KeyToPath", "1 key s!, 2 path s!, 3 mode i32*"},
    {"core/v1.Lifecycle", "1 postStart LifecycleHandler*, 2 preStop LifecycleHandler*"},
    {"core/v1.LifecycleHandler",
     "1 exec ExecAction*, 2 httpGet HTTPGetAction*, 3 tcpSocket TCPSocketAction*, 4 sleep SleepAction*"},
    {"core/v1.LimitRange", "1 metadata ObjectMeta, 2 spec LimitRangeSpec"},
    {"core/v1.LimitRangeItem",
     "1 type s!, 2 max {}Quantity, 3 min {}Quantity, 4 default {}Quantity, 5 defaultRequest {}Quantity"
     ", 6 maxLimitRequestRatio {}Quantity"},
    {"core/v1.LimitRangeSpec", "1 limits []LimitRangeItem!"},
    {"core/v1.LinuxContainerUser", "1 uid i64!, 2 gid i64!, 3 supplementalGroups []i64"},
    {"core/v1.LoadBalancerIngress", "1 ip s, 2 hostname s, 3 ipMode s*, 4 ports []PortStatus"},
    {"core/v1.LoadBalancerStatus", "1 ingress []LoadBalancerIngress"},
    {"core/v1.LocalObjectReference", "1 name s"},
    {"core/v1.LocalVolumeSource", "1 path s!, 2 fsType s*"},
    {"core/v1.ModifyVolumeStatus", "1 targetVolumeAttributesClassName s, 2 status s!"},
    {"core/v1.NFSVolumeSource", "1 server s!, 2 path s!, 3 readOnly b"},
    {"core/v1.Namespace", "1 metadata ObjectMeta, 2 spec NamespaceSpec, 3 status NamespaceStatus"},
    {"core/v1.NamespaceCondition",
     "1 type s!, 2 status s!, 4 lastTransitionTime Time, 5 reason s, 6 message s"},
    {"core/v1.NamespaceSpec", "1 finalizers []s"},
    {"core/v1.NamespaceStatus", "1 phase s, 2 conditions []NamespaceCondition"},
    {"core/v1.Node", "1 metadata ObjectMeta, 2 spec NodeSpec, 3 status NodeStatus"},
    {"core/v1.NodeAddress", "1 type s!, 2 address s!"},
    {"core/v1.NodeAffinity",
     "1 requiredDuringSchedulingIgnoredDuringExecution NodeSelector*"
     ", 2 preferredDuringSchedulingIgnoredDuringExecution []PreferredSchedulingTerm"},
    {"core/v1.NodeCondition",
     "1 type s!, 2 status s!, 3 lastHeartbeatTime Time, 4 lastTransitionTime Time, 5 reason s"
     ", 6 message s"},
    {"core/v1.NodeDaemonEndpoints", "1 kubeletEndpoint DaemonEndpoint"},
    {"core/v1.NodeFeatures", "1 supplementalGroupsPolicy b*"},
    {"core/v1.NodeRuntimeHandler", "1 name s!, 2 features NodeRuntimeHandlerFeatures*"},
    {"core/v1.NodeRuntimeHandlerFeatures", "1 recursiveReadOnlyMounts b*, 2 userNamespaces b*"},
    {"core/v1.NodeSelector", "1 nodeSelectorTerms []NodeSelectorTerm!"},
    {"core/v1.NodeSelectorRequirement", "1 key s!, 2 operator s!, 3 values []s"},
    {"core/v1.NodeSelectorTerm",
     "1 matchExpressions []NodeSelectorRequirement, 2 matchFields []NodeSelectorRequirement"},
    {"core/v1.NodeSpec",
     "1 podCIDR s, 2 externalID s, 3 providerID s, 4 unschedulable b, 5 taints []Taint"
     ", 6 configSource NodeConfigSource*, 7 podCIDRs []s"},
    {"core/v1.NodeStatus",
     "1 capacity {}Quantity, 2 allocatable {}Quantity, 3 phase s, 4 conditions []NodeCondition"
     ", 5 addresses []NodeAddress, 6 daemonEndpoints NodeDaemonEndpoints, 7 nodeInfo NodeSystemInfo"
     ", 8 images []ContainerImage, 9 volumesInUse []s, 10 volumesAttached []AttachedVolume"
     ", 11 config NodeConfigStatus*, 12 runtimeHandlers []NodeRuntimeHandler"
     ", 13 features NodeFeatures*"},
    {"core/v1.NodeSystemInfo",
     "1 machineID s!, 2 systemUUID s!, 3 bootID s!, 4 kernelVersion s!, 5 osImage s!"
     ", 6 containerRuntimeVersion s!, 7 kubeletVersion s!, 8 kubeProxyVersion s!, 9 operatingSystem s!"
     ", 10 architecture s!"},
    {"core/v1.ObjectFieldSelector", "1 apiVersion s, 2 fieldPath s!"},
    {"core/v1.ObjectReference",
     "1 kind s, 2 namespace s, 3 name s, 4 uid s, 5 apiVersion s, 6 resourceVersion s, 7 fieldPath s"},
    {"core/v1.PersistentVolume",
     "1 metadata ObjectMeta, 2 spec PersistentVolumeSpec, 3 status PersistentVolumeStatus"},
    {"core/v1.PersistentVolumeClaim",
     "1 metadata ObjectMeta, 2 spec PersistentVolumeClaimSpec, 3 status PersistentVolumeClaimStatus"},
    {"core/v1.PersistentVolumeClaimCondition",
     "1 type s!, 2 status s!, 3 lastProbeTime Time, 4 lastTransitionTime Time, 5 reason s, 6 message s"},
    {"core/v1.PersistentVolumeClaimSpec",
     "1 accessModes []s, 2 resources VolumeResourceRequirements, 3 volumeName s"
     ", 4 selector LabelSelector*, 5 storageClassName s*, 6 volumeMode s*"
     ", 7 dataSource TypedLocalObjectReference*, 8 dataSourceRef TypedObjectReference*"
     ", 9 volumeAttributesClassName s*"},
    {"core/v1.PersistentVolumeClaimStatus",
     "1 phase s, 2 accessModes []s, 3 capacity {}Quantity"
     ", 4 conditions []PersistentVolumeClaimCondition, 5 allocatedResources {}Quantity"
     ", 7 allocatedResourceStatuses {}s, 8 currentVolumeAttributesClassName s*"
     ", 9 modifyVolumeStatus ModifyVolumeStatus*"},
    {"core/v1.PersistentVolumeClaimTemplate",
     "1 metadata ObjectMeta, 2 spec PersistentVolumeClaimSpec!"},
    {"core/v1.PersistentVolumeClaimVolumeSource", "1 claimName s!, 2 readOnly b"},
    {"core/v1.PersistentVolumeSource",
     "1 gcePersistentDisk GCEPersistentDiskVolumeSource*"
     ", 2 awsElasticBlockStore AWSElasticBlockStoreVolumeSource*, 3 hostPath HostPathVolumeSource*"
     ", 4 glusterfs GlusterfsPersistentVolumeSource*, 5 nfs NFSVolumeSource*"
     ", 6 rbd RBDPersistentVolumeSource*, 7 iscsi ISCSIPersistentVolumeSource*"
     ", 8 cinder CinderPersistentVolumeSource*, 9 cephfs CephFSPersistentVolumeSource*"
     ", 10 fc FCVolumeSource*, 11 flocker FlockerVolumeSource*, 12 flexVolume FlexPersistentVolumeSource*"
     ", 13 azureFile AzureFilePersistentVolumeSource*, 14 vsphereVolume VsphereVirtualDiskVolumeSource*"
     ", 15 quobyte QuobyteVolumeSource*, 16 azureDisk AzureDiskVolumeSource*"
     ", 17 photonPersistentDisk PhotonPersistentDiskVolumeSource*, 18 portworxVolume PortworxVolumeSource*"
     ", 19 scaleIO ScaleIOPersistentVolumeSource*, 20 local LocalVolumeSource*"
     ", 21 storageos StorageOSPersistentVolumeSource*, 22 csi CSIPersistentVolumeSource*"},
    {"core/v1.PersistentVolumeSpec",
     "1 capacity {}Quantity, 2 persistentVolumeSource PersistentVolumeSource~, 3 accessModes []s"
     ", 4 claimRef ObjectReference*, 5 persistentVolumeReclaimPolicy s, 6 storageClassName s"
     ", 7 mountOptions []s, 8 volumeMode s*, 9 nodeAffinity VolumeNodeAffinity*"
     ", 10 volumeAttributesClassName s*"},
    {"core/v1.PersistentVolumeStatus",
     "1 phase s, 2 message s, 3 reason s, 4 lastPhaseTransitionTime Time*"},
    {"core/v1.Pod", "1 metadata ObjectMeta, 2 spec PodSpec, 3 status PodStatus"},
    {"core/v1.PodAffinity",
     "1 requiredDuringSchedulingIgnoredDuringExecution []PodAffinityTerm"
     ", 2 preferredDuringSchedulingIgnoredDuringExecution []WeightedPodAffinityTerm"},
    {"core/v1.PodAffinityTerm",
     "1 labelSelector LabelSelector*, 2 namespaces []s, 3 topologyKey s!"
     ", 4 namespaceSelector LabelSelector*, 5 matchLabelKeys []s, 6 mismatchLabelKeys []s"},
    {"core/v1.PodAntiAffinity",
     "1 requiredDuringSchedulingIgnoredDuringExecution []PodAffinityTerm"
     ", 2 preferredDuringSchedulingIgnoredDuringExecution []WeightedPodAffinityTerm"},
    {"core/v1.PodCondition",
     "1 type s!, 2 status s!, 3 lastProbeTime Time, 4 lastTransitionTime Time, 5 reason s, 6 message s"},
    {"core/v1.PodDNSConfig", "1 nameservers []s, 2 searches []s, 3 options []PodDNSConfigOption"},
    {"core/v1.PodDNSConfigOption", "1 name s, 2 value s*"},
    {"core/v1.PodIP", "1 ip s!"},
    {"core/v1.PodOS", "1 name s!"},
    {"core/v1.PodReadinessGate", "1 conditionType s!"},
    {"core/v1.PodResourceClaim",
     "1 name s!, 3 resourceClaimName s*, 4 resourceClaimTemplateName s*"},
    {"core/v1.PodResourceClaimStatus", "1 name s!, 2 resourceClaimName s*"},
    {"core/v1.PodSchedulingGate", "1 name s!"},
    {"core/v1.PodSecurityContext",
     "1 seLinuxOptions SELinuxOptions*, 2 runAsUser i64*, 3 runAsNonRoot b*"
     ", 4 supplementalGroups []i64, 5 fsGroup i64*, 6 runAsGroup i64*, 7 sysctls []Sysctl"
     ", 8 windowsOptions WindowsSecurityContextOptions*, 9 fsGroupChangePolicy s*"
     ", 10 seccompProfile SeccompProfile*, 11 appArmorProfile AppArmorProfile*"
     ", 12 supplementalGroupsPolicy s*, 13 seLinuxChangePolicy s*"},
    {"core/v1.PodSpec",
     "1 volumes []Volume, 2 containers []Container!, 3 restartPolicy s"
     ", 4 terminationGracePeriodSeconds i64*, 5 activeDeadlineSeconds i64*, 6 dnsPolicy s"
     ", 7 nodeSelector {}s, 8 serviceAccountName s, 9 serviceAccount s, 10 nodeName s"
     ", 11 hostNetwork b, 12 hostPID b, 13 hostIPC b, 14 securityContext PodSecurityContext*"
     ", 15 imagePullSecrets []LocalObjectReference, 16 hostname s, 17 subdomain s"
     ", 18 affinity Affinity*, 19 schedulerName s, 20 initContainers []Container"
     ", 21 automountServiceAccountToken b*, 22 tolerations []Toleration, 23 hostAliases []HostAlias"
     ", 24 priorityClassName s, 25 priority i32*, 26 dnsConfig PodDNSConfig*"
     ", 27 shareProcessNamespace b*, 28 readinessGates []PodReadinessGate, 29 runtimeClassName s*"
     ", 30 enableServiceLinks b*, 31 preemptionPolicy s*, 32 overhead {}Quantity"
     ", 33 topologySpreadConstraints []TopologySpreadConstraint"
     ", 34 ephemeralContainers []EphemeralContainer, 35 setHostnameAsFQDN b*, 36 os PodOS*"
     ", 37 hostUsers b*, 38 schedulingGates []PodSchedulingGate, 39 resourceClaims []PodResourceClaim"
     ", 40 resources ResourceRequirements*"},
    {"core/v1.PodStatus",
     "1 phase s, 2 conditions []PodCondition, 3 message s, 4 reason s, 5 hostIP s, 6 podIP s"
     ", 7 startTime Time*, 8 containerStatuses []ContainerStatus, 9 qosClass s"
     ", 10 initContainerStatuses []ContainerStatus, 11 nominatedNodeName s, 12 podIPs []PodIP"
     ", 13 ephemeralContainerStatuses []ContainerStatus, 14 resize s"
     ", 15 resourceClaimStatuses []PodResourceClaimStatus, 16 hostIPs []HostIP"},
    {"core/v1.PortStatus", "1 port i32!, 2 protocol s!, 3 error s*"},
    {"core/v1.PreferredSchedulingTerm", "1 weight i32!, 2 preference NodeSelectorTerm!"},
    {"core/v1.Probe",
     "1 handler ProbeHandler~, 2 initialDelaySeconds i32, 3 timeoutSeconds i32, 4 periodSeconds i32"
     ", 5 successThreshold i32, 6 failureThreshold i32, 7 terminationGracePeriodSeconds i64*"},
    {"core/v1.ProbeHandler",
     "1 exec ExecAction*, 2 httpGet HTTPGetAction*, 3 tcpSocket TCPSocketAction*, 4 grpc GRPCAction*"},
    {"core/v1.ProjectedVolumeSource", "1 sources []VolumeProjection!, 2 defaultMode i32*"},
    {"core/v1.ResourceClaim", "1 name s!, 2 request s"},
    {"core/v1.ResourceFieldSelector", "1 containerName s, 2 resource s!, 3 divisor Quantity"},
    {"core/v1.ResourceHealth", "1 resourceID s!, 2 health s"},
    {"core/v1.ResourceQuota",
     "1 metadata ObjectMeta, 2 spec ResourceQuotaSpec, 3 status ResourceQuotaStatus"},
    {"core/v1.ResourceQuotaSpec", "1 hard {}Quantity, 2 scopes []s, 3 scopeSelector ScopeSelector*"},
    {"core/v1.ResourceQuotaStatus", "1 hard {}Quantity, 2 used {}Quantity"},
    {"core/v1.ResourceRequirements",
     "1 limits {}Quantity, 2 requests {}Quantity, 3 claims []ResourceClaim"},
    {"core/v1.ResourceStatus", "1 name s!, 2 resources []ResourceHealth"},
    {"core/v1.SELinuxOptions", "1 user s, 2 role s, 3 type s, 4 level s"},
    {"core/v1.ScopeSelector", "1 matchExpressions []ScopedResourceSelectorRequirement"},
    {"core/v1.ScopedResourceSelectorRequirement", "1 scopeName s!, 2 operator s!, 3 values []s"},
    {"core/v1.SeccompProfile", "1 type s!, 2 localhostProfile s*"},
    {"core/v1.Secret",
     "1 metadata ObjectMeta, 2 data {}y, 3 type s, 4 stringData {}s, 5 immutable b*"},
    {"core/v1.SecretEnvSource", "1 localObjectReference LocalObjectReference~, 2 optional b*"},
    {"core/v1.SecretKeySelector",
     "1 localObjectReference LocalObjectReference~, 2 key s!, 3 optional b*"},
    {"core/v1.SecretProjection",
     "1 localObjectReference LocalObjectReference~, 2 items []KeyToPath, 4 optional b*"},
    {"core/v1.SecretReference", "1 name s, 2 namespace s"},
    {"core/v1.SecretVolumeSource",
     "1 secretName s, 2 items []KeyToPath, 3 defaultMode i32*, 4 optional b*"},
    {"core/v1.SecurityContext",
     "1 capabilities Capabilities*, 2 privileged b*, 3 seLinuxOptions SELinuxOptions*"
     ", 4 runAsUser i64*, 5 runAsNonRoot b*, 6 readOnlyRootFilesystem b*"
     ", 7 allowPrivilegeEscalation b*, 8 runAsGroup i64*, 9 procMount s*"
     ", 10 windowsOptions WindowsSecurityContextOptions*, 11 seccompProfile SeccompProfile*"
     ", 12 appArmorProfile AppArmorProfile*"},
    {"core/v1.Service", "1 metadata ObjectMeta, 2 spec ServiceSpec, 3 status ServiceStatus"},
    {"core/v1.ServiceAccount",
     "1 metadata ObjectMeta, 2 secrets []ObjectReference, 3 imagePullSecrets []LocalObjectReference"
     ", 4 automountServiceAccountToken b*"},
    {"core/v1.ServiceAccountTokenProjection", "1 audience s, 2 expirationSeconds i64*, 3 path s!"},
    {"core/v1.ServicePort",
     "1 name s, 2 protocol s, 3 port i32!, 4 targetPort IntOrString, 5 nodePort i32, 6 appProtocol s*"},
    {"core/v1.ServiceSpec",
     "1 ports []ServicePort, 2 selector {}s, 3 clusterIP s, 4 type s, 5 externalIPs []s"
     ", 7 sessionAffinity s, 8 loadBalancerIP s, 9 loadBalancerSourceRanges []s, 10 externalName s"
     ", 11 externalTrafficPolicy s, 12 healthCheckNodePort i32, 13 publishNotReadyAddresses b"
     ", 14 sessionAffinityConfig SessionAffinityConfig*, 17 ipFamilyPolicy s*, 18 clusterIPs []s"
     ", 19 ipFamilies []s, 20 allocateLoadBalancerNodePorts b*, 21 loadBalancerClass s*"
     ", 22 internalTrafficPolicy s*, 23 trafficDistribution s*"},
    {"core/v1.ServiceStatus", "1 loadBalancer LoadBalancerStatus, 2 conditions []Condition"},
    {"core/v1.SessionAffinityConfig", "1 clientIP ClientIPConfig*"},
    {"core/v1.SleepAction", "1 seconds i64!"},
    {"core/v1.Sysctl", "1 name s!, 2 value s!"},
    {"core/v1.TCPSocketAction", "1 port IntOrString!, 2 host s"},
    {"core/v1.Taint", "1 key s!, 2 value s, 3 effect s!, 4 timeAdded Time*"},
    {"core/v1.Toleration", "1 key s, 2 operator s, 3 value s, 4 effect s, 5 tolerationSeconds i64*"},
    {"core/v1.TopologySelectorLabelRequirement", "1 key s!, 2 values []s!"},
    {"core/v1.TopologySelectorTerm", "1 matchLabelExpressions []TopologySelectorLabelRequirement"},
    {"core/v1.TopologySpreadConstraint",
     "1 maxSkew i32!, 2 topologyKey s!, 3 whenUnsatisfiable s!, 4 labelSelector LabelSelector*"
     ", 5 minDomains i32*, 6 nodeAffinityPolicy s*, 7 nodeTaintsPolicy s*, 8 matchLabelKeys []s"},
    {"core/v1.TypedLocalObjectReference", "1 apiGroup s*!, 2 kind s!, 3 name s!"},
    {"core/v1.TypedObjectReference", "1 apiGroup s*!, 2 kind s!, 3 name s!, 4 namespace s*"},
    {"core/v1.Volume", "1 name s!, 2 volumeSource VolumeSource~"},
    {"core/v1.VolumeDevice", "1 name s!, 2 devicePath s!"},
    {"core/v1.VolumeMount",
     "1 name s!, 2 readOnly b, 3 mountPath s!, 4 subPath s, 5 mountPropagation s*, 6 subPathExpr s"
     ", 7 recursiveReadOnly s*"},
    {"core/v1.VolumeMountStatus", "1 name s!, 2 mountPath s!, 3 readOnly b, 4 recursiveReadOnly s*"},
    {"core/v1.VolumeNodeAffinity", "1 required NodeSelector*"},
    {"core/v1.VolumeProjection",
     "1 secret SecretProjection*, 2 downwardAPI DownwardAPIProjection*"
     ", 3 configMap ConfigMapProjection*, 4 serviceAccountToken ServiceAccountTokenProjection*"
     ", 5 clusterTrustBundle ClusterTrustBundleProjection*"},
    {"core/v1.VolumeResourceRequirements", "1 limits {}Quantity, 2 requests {}Quantity"},
    {"core/v1.VolumeSource",
     "1 hostPath HostPathVolumeSource*, 2 emptyDir EmptyDirVolumeSource*"
     ", 3 gcePersistentDisk GCEPersistentDiskVolumeSource*"
     ", 4 awsElasticBlockStore AWSElasticBlockStoreVolumeSource*, 5 gitRepo GitRepoVolumeSource*"
     ", 6 secret SecretVolumeSource*, 7 nfs NFSVolumeSource*, 8 iscsi ISCSIVolumeSource*"
     ", 9 glusterfs GlusterfsVolumeSource*"
     ", 10 persistentVolumeClaim PersistentVolumeClaimVolumeSource*, 11 rbd RBDVolumeSource*"
     ", 12 flexVolume FlexVolumeSource*, 13 cinder CinderVolumeSource*, 14 cephfs CephFSVolumeSource*"
     ", 15 flocker FlockerVolumeSource*, 16 downwardAPI DownwardAPIVolumeSource*"
     ", 17 fc FCVolumeSource*, 18 azureFile AzureFileVolumeSource*"
     ", 19 configMap ConfigMapVolumeSource*, 20 vsphereVolume VsphereVirtualDiskVolumeSource*"
     ", 21 quobyte QuobyteVolumeSource*, 22 azureDisk AzureDiskVolumeSource*"
     ", 23 photonPersistentDisk PhotonPersistentDiskVolumeSource*"
     ", 24 portworxVolume PortworxVolumeSource*, 25 scaleIO ScaleIOVolumeSource*"
     ", 26 projected ProjectedVolumeSource*, 27 storageos StorageOSVolumeSource*"
     ", 28 csi CSIVolumeSource*, 29 ephemeral EphemeralVolumeSource*, 30 image ImageVolumeSource*"},
    {"core/v1.WeightedPodAffinityTerm", "1 weight i32!, 2 podAffinityTerm PodAffinityTerm!"},
    {"core/v1.WindowsSecurityContextOptions",
     "1 gmsaCredentialSpecName s*, 2 gmsaCredentialSpec s*, 3 runAsUserName s*, 4 hostProcess b*"},
    {"discovery/v1.Endpoint",
     "1 addresses []s!, 2 conditions EndpointConditions, 3 hostname s*"
     ", 4 targetRef core/v1.ObjectReference*, 5 deprecatedTopology {}s, 6 nodeName s*, 7 zone s*"
     ", 8 hints EndpointHints*"},
    {"discovery/v1.EndpointConditions", "1 ready b*, 2 serving b*, 3 terminating b*"},
    {"discovery/v1.EndpointHints", "1 forZones []ForZone"},
    {"discovery/v1.EndpointPort", "1 name s*, 2 protocol s*, 3 port i32*, 4 appProtocol s*"},
    {"discovery/v1.EndpointSlice",
     "1 metadata ObjectMeta, 2 endpoints []Endpoint!, 3 ports []EndpointPort!, 4 addressType s!"},
    {"discovery/v1.ForZone", "1 name s!"},
    {"events/v1.Event",
     "1 metadata ObjectMeta!, 2 eventTime MicroTime!, 3 series EventSeries*, 4 reportingController s"
     ", 5 reportingInstance s, 6 action s, 7 reason s, 8 regarding core/v1.ObjectReference"
     ", 9 related core/v1.ObjectReference*, 10 note s, 11 type s"
     ", 12 deprecatedSource core/v1.EventSource, 13 deprecatedFirstTimestamp Time"
     ", 14 deprecatedLastTimestamp Time, 15 deprecatedCount i32"},
    {"events/v1.EventSeries", "1 count i32!, 2 lastObservedTime MicroTime!"},
    {"meta/v1.Condition",
     "1 type s!, 2 status s!, 3 observedGeneration i64, 4 lastTransitionTime Time!, 5 reason s!"
     ", 6 message s!"},
    {"meta/v1.DeleteOptions",
     "1 gracePeriodSeconds i64*, 2 preconditions Preconditions*, 3 orphanDependents b*"
     ", 4 propagationPolicy s*, 5 dryRun []s, 6 ignoreStoreReadErrorWithClusterBreakingPotential b*"},
    {"meta/v1.FieldSelectorRequirement", "1 key s!, 2 operator s!, 3 values []s"},
    {"meta/v1.LabelSelector", "1 matchLabels {}s, 2 matchExpressions []LabelSelectorRequirement"},
    {"meta/v1.LabelSelectorRequirement", "1 key s!, 2 operator s!, 3 values []s"},
    {"meta/v1.ListMeta", "1 selfLink s, 2 resourceVersion s, 3 continue s, 4 remainingItemCount i64*"},
    {"meta/v1.ManagedFieldsEntry",
     "1 manager s, 2 operation s, 3 apiVersion s, 4 time Time*, 6 fieldsType s, 7 fieldsV1 FieldsV1*"
     ", 8 subresource s"},
    {"meta/v1.ObjectMeta",
     "1 name s, 2 generateName s, 3 namespace s, 4 selfLink s, 5 uid s, 6 resourceVersion s"
     ", 7 generation i64, 8 creationTimestamp Time, 9 deletionTimestamp Time*"
     ", 10 deletionGracePeriodSeconds i64*, 11 labels {}s, 12 annotations {}s"
     ", 13 ownerReferences []OwnerReference, 14 finalizers []s, 17 managedFields []ManagedFieldsEntry"},
    {"meta/v1.OwnerReference",
     "1 kind s!, 3 name s!, 4 uid s!, 5 apiVersion s!, 6 controller b*, 7 blockOwnerDeletion b*"},
    {"meta/v1.PartialObjectMetadata", "1 metadata ObjectMeta"},
    {"meta/v1.Preconditions", "1 uid s*, 2 resourceVersion s*"},
    {"meta/v1.Status",
     "1 metadata ListMeta, 2 status s, 3 message s, 4 reason s, 5 details StatusDetails*, 6 code i32"},
    {"meta/v1.StatusCause", "1 reason s, 2 message s, 3 field s"},
    {"meta/v1.StatusDetails",
     "1 name s, 2 group s, 3 kind s, 4 causes []StatusCause, 5 retryAfterSeconds i32, 6 uid s"},
    {"networking/v1.IPBlock", "1 cidr s!, 2 except []s"},
    {"networking/v1.NetworkPolicy", "1 metadata ObjectMeta, 2 spec NetworkPolicySpec"},
    {"networking/v1.NetworkPolicyEgressRule",
     "1 ports []NetworkPolicyPort, 2 to []NetworkPolicyPeer"},
    {"networking/v1.NetworkPolicyIngressRule",
     "1 ports []NetworkPolicyPort, 2 from []NetworkPolicyPeer"},
    {"networking/v1.NetworkPolicyPeer",
     "1 podSelector LabelSelector*, 2 namespaceSelector LabelSelector*, 3 ipBlock IPBlock*"},
    {"networking/v1.NetworkPolicyPort", "1 protocol s*, 2 port IntOrString*, 3 endPort i32*"},
    {"networking/v1.NetworkPolicySpec",
     "1 podSelector LabelSelector!, 2 ingress []NetworkPolicyIngressRule"
     ", 3 egress []NetworkPolicyEgressRule, 4 policyTypes []s"},
    {"node/v1.Overhead", "1 podFixed {}Quantity"},
    {"node/v1.RuntimeClass",
     "1 metadata ObjectMeta, 2 handler s!, 3 overhead Overhead*, 4 scheduling Scheduling*"},
    {"node/v1.Scheduling", "1 nodeSelector {}s, 2 tolerations []core/v1.Toleration"},
    {"policy/v1.Eviction", "1 metadata ObjectMeta, 2 deleteOptions DeleteOptions*"},
    {"policy/v1.PodDisruptionBudget",
     "1 metadata ObjectMeta, 2 spec PodDisruptionBudgetSpec, 3 status PodDisruptionBudgetStatus"},
    {"policy/v1.PodDisruptionBudgetSpec",
     "1 minAvailable IntOrString*, 2 selector LabelSelector*, 3 maxUnavailable IntOrString*"
     ", 4 unhealthyPodEvictionPolicy s*"},
    {"policy/v1.PodDisruptionBudgetStatus",
     "1 observedGeneration i64, 2 disruptedPods {}Time, 3 disruptionsAllowed i32!, 4 currentHealthy i32!"
     ", 5 desiredHealthy i32!, 6 expectedPods i32!, 7 conditions []Condition"},
    {"rbac/v1.AggregationRule", "1 clusterRoleSelectors []LabelSelector"},
    {"rbac/v1.ClusterRole",
     "1 metadata ObjectMeta, 2 rules []PolicyRule!, 3 aggregationRule AggregationRule*"},
    {"rbac/v1.ClusterRoleBinding",
     "1 metadata ObjectMeta, 2 subjects []Subject, 3 roleRef RoleRef!"},
    {"rbac/v1.PolicyRule",
     "1 verbs []s!, 2 apiGroups []s, 3 resources []s, 4 resourceNames []s, 5 nonResourceURLs []s"},
    {"rbac/v1.Role", "1 metadata ObjectMeta, 2 rules []PolicyRule!"},
    {"rbac/v1.RoleBinding", "1 metadata ObjectMeta, 2 subjects []Subject, 3 roleRef RoleRef!"},
    {"rbac/v1.RoleRef", "1 apiGroup s!, 2 kind s!, 3 name s!"},
    {"rbac/v1.Subject", "1 kind s!, 2 apiGroup s, 3 name s!, 4 namespace s"},
    {"scheduling/v1.PriorityClass",
     "1 metadata ObjectMeta, 2 value i32!, 3 globalDefault b, 4 description s, 5 preemptionPolicy s*"},
    {"storage/v1.StorageClass",
     "1 metadata ObjectMeta, 2 provisioner s!, 3 parameters {}s, 4 reclaimPolicy s*, 5 mountOptions []s"
     ", 6 allowVolumeExpansion b*, 7 volumeBindingMode s*, 8 allowedTopologies []core/v1.TopologySelectorTerm"},
};
/* clang-format on */
const size_t proto_message_count = sizeof(proto_messages) / sizeof(proto_messages[0]);
