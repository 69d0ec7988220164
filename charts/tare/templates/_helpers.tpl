{{- define "tare.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Name of what exists outside of namespaces: two releases may have one name in two namespaces. */}}
{{- define "tare.clusterName" -}}
{{- printf "%s-%s" .Release.Namespace (include "tare.fullname" .) -}}
{{- end -}}

{{- define "tare.serviceAccount" -}}
{{- default (include "tare.fullname" .) .Values.serviceAccount.name -}}
{{- end -}}

{{- define "tare.keySecret" -}}
{{- default (printf "%s-operator-key" (include "tare.fullname" .)) .Values.operatorKey.existingSecret -}}
{{- end -}}

{{- define "tare.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "tare.labels" -}}
{{ include "tare.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* Of `image` or `workerImage`. */}}
{{- define "tare.image" -}}
{{- if .digest -}}
{{- printf "%s@%s" .repository .digest -}}
{{- else -}}
{{- printf "%s:%s" .repository .tag -}}
{{- end -}}
{{- end -}}

{{/* What the restricted Pod Security level asks of a pod, and of a container. */}}
{{- define "tare.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "tare.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* Where the operator's rules, given as `rules`, hold: a ClusterRole, or a Role in each namespace.
     Call with root, name, rules, and annotations for hooks. */}}
{{- define "tare.grant" -}}
{{- $root := .root -}}
{{- $name := .name -}}
{{- $clusterName := printf "%s-%s" $root.Release.Namespace $name -}}
{{- range $namespace := default (list "") $root.Values.watch.namespaces }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ ternary "Role" "ClusterRole" (ne $namespace "") }}
metadata:
  name: {{ $clusterName }}
  {{- with $namespace }}
  namespace: {{ . }}
  {{- end }}
  labels: {{- include "tare.labels" $root | nindent 4 }}
  {{- with $.annotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
rules: {{- $.rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ ternary "RoleBinding" "ClusterRoleBinding" (ne $namespace "") }}
metadata:
  name: {{ $clusterName }}
  {{- with $namespace }}
  namespace: {{ . }}
  {{- end }}
  labels: {{- include "tare.labels" $root | nindent 4 }}
  {{- with $.annotations }}
  annotations: {{- toYaml . | nindent 4 }}
  {{- end }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ ternary "Role" "ClusterRole" (ne $namespace "") }}
  name: {{ $clusterName }}
subjects:
  - {kind: ServiceAccount, name: {{ $.serviceAccount }}, namespace: {{ $root.Release.Namespace }}}
{{- end }}
{{- end -}}
