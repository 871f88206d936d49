{{- define "streamjob.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "streamjob.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "streamjob.serviceAccount" -}}
{{ .Values.serviceAccount.name | default .Release.Name }}
{{- end }}

{{/* The watched namespaces, as JSON. With allNamespaces: the namespace of the driver's service account. */}}
{{- define "streamjob.namespaces" -}}
{{- if or .Values.watch.allNamespaces (not .Values.watch.namespaces) -}}
{{ list .Release.Namespace | toJson }}
{{- else -}}
{{ .Values.watch.namespaces | toJson }}
{{- end -}}
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
# the index: kube.get_config_map, create_config_map, put_config_map; the runtime: has_config_map, create_config_map,
# list_config_maps, delete_config_map
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, create, update, delete]
# the token and certificate of each job: kube.get_secret, create_secret
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, create]
# kube.create_event, patch_event
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end }}
