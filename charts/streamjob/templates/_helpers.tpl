{{/* The chart's name, in labels. */}}
{{- define "streamjob.name" -}}
{{ .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* The name of the objects: the release's, followed by the chart's name unless the release's name has it. */}}
{{- define "streamjob.fullname" -}}
{{- $name := include "streamjob.name" . -}}
{{- $release := .Release.Name -}}
{{- $full := contains $name $release | ternary $release (printf "%s-%s" $release $name) -}}
{{ .Values.fullnameOverride | default $full | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "streamjob.labels" -}}
{{- with .Values.commonLabels }}
{{- toYaml . }}
{{ end }}
{{- include "streamjob.instance" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "streamjob.instance" -}}
app.kubernetes.io/name: {{ include "streamjob.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* The pods of the controller, and no others of this chart. */}}
{{- define "streamjob.selector" -}}
{{ include "streamjob.instance" . }}
app.kubernetes.io/component: controller
{{- end }}

{{/* Metadata of an object: (list $ NAME NAMESPACE), and its own (dict "labels" … "annotations" …). */}}
{{- define "streamjob.metadata" -}}
{{- $root := index . 0 }}
{{- $own := gt (len .) 3 | ternary (last .) dict -}}
name: {{ index . 1 }}
{{- with index . 2 }}
namespace: {{ . }}
{{- end }}
labels:
  {{- include "streamjob.labels" $root | nindent 2 }}
  {{- with $own.labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge (dict) ($own.annotations | default dict) $root.Values.commonAnnotations }}
annotations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "streamjob.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "streamjob.fullname" .) }}
{{- else -}}
{{ .Values.serviceAccount.name | default "default" }}
{{- end -}}
{{- end }}

{{/* Outside of namespaces, releases of several namespaces must not share a name. */}}
{{- define "streamjob.clusterName" -}}
{{ .Release.Namespace }}-{{ include "streamjob.fullname" . }}
{{- end }}

{{- define "streamjob.image" -}}
{{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
{{- end }}

{{- define "streamjob.podSecurityContext" -}}
runAsNonRoot: true
{{- if eq .Values.podSecurity "Default" }}
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
{{- end }}
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "streamjob.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* What the pods of the hooks have in common with the controller's. */}}
{{- define "streamjob.podCommon" -}}
securityContext: {{- include "streamjob.podSecurityContext" . | nindent 2 }}
{{- range $key := list "imagePullSecrets" "nodeSelector" "tolerations" "affinity" }}
{{- with index $.Values $key }}
{{ $key }}: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{- define "streamjob.containerCommon" -}}
image: {{ include "streamjob.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext: {{- include "streamjob.containerSecurityContext" . | nindent 2 }}
resources: {{- toYaml .Values.resources | nindent 2 }}
{{- with .Values.extraEnv }}
env: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The watched namespaces, as JSON. With allNamespaces: the namespace of the driver's service account. */}}
{{- define "streamjob.namespaces" -}}
{{- if or .Values.watch.allNamespaces (not .Values.watch.namespaces) -}}
{{ list .Release.Namespace | toJson }}
{{- else -}}
{{ .Values.watch.namespaces | toJson }}
{{- end -}}
{{- end }}

{{/* The kinds of objects that the controller may create for Spark's UI, as JSON. */}}
{{- define "streamjob.uiKinds" -}}
{{- $kinds := list -}}
{{- with .Values.ui -}}
{{- if .services }}{{ $kinds = append $kinds (dict "kind" "Service" "group" "" "resource" "services") }}{{ end -}}
{{- if .ingresses }}{{ $kinds = append $kinds (dict "kind" "Ingress" "group" "networking.k8s.io" "resource" "ingresses") }}{{ end -}}
{{- if .httpRoutes }}{{ $kinds = append $kinds (dict "kind" "HTTPRoute" "group" "gateway.networking.k8s.io" "resource" "httproutes") }}{{ end -}}
{{- end -}}
{{ $kinds | toJson }}
{{- end }}

{{/* The controller's permissions. Each comment names the calls in operator/streamjob/controller that need them. */}}
{{- define "streamjob.controllerRules" -}}
# kube.get_job; kopf and kube.list_jobs (periodic resync); kopf; kube.put_finalizers
- apiGroups: [streamjob.dev]
  resources: [streamjobs]
  verbs: [get, list, watch, patch]
# kube.put_status
- apiGroups: [streamjob.dev]
  resources: [streamjobs/status]
  verbs: [update]
# kube.get_pod; kopf, kube.list_pods and list_all_pods (periodic resync); kopf; kube.create_pod; kube.delete_pod
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, delete]
# the index: kube.get_config_map, create_config_map, put_config_map; the runtime: has, create_config_map,
# list_config_maps, delete_config_map; what volumes name: has
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, create, update, delete]
# the token and certificate of each job: kube.get_secret, create_secret; what volumes name: has
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, create]
{{- range include "streamjob.uiKinds" . | fromJsonArray }}
# kube.get_ui; kube.list_ui (from time to time); kube.apply_ui; kube.delete_ui
- apiGroups: [{{ .group | quote }}]
  resources: [{{ .resource }}]
  verbs: [get, list, create, patch, delete]
{{- end }}
# kube.create_event, patch_event
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end }}
