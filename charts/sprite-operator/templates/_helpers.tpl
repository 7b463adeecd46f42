{{/* Labels that never change: Deployment and NetworkPolicy select by them. */}}
{{- define "sprite-operator.selector" -}}
app.kubernetes.io/name: sprite-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* Labels of every object. */}}
{{- define "sprite-operator.labels" -}}
{{ include "sprite-operator.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{/*
The objects of one file of files/, with the chart's labels. Demo and tests apply the same files as they are.
Arguments: the root, the path, whether the objects belong to the release's namespace, labels to add.
*/}}
{{- define "sprite-operator.file" -}}
{{- $root := index . 0 }}
{{- $extra := index . 3 }}
{{- $namespaced := index . 2 }}
{{- range splitList "\n---\n" ($root.Files.Get (index . 1)) }}
{{- $object := fromYaml . }}
{{- $labels := include "sprite-operator.labels" $root | fromYaml }}
{{- $_ := set $object.metadata "labels" (merge (deepCopy (default dict $extra)) (default dict $object.metadata.labels) $labels) }}
{{- if $namespaced }}{{ $_ := set $object.metadata "namespace" $root.Release.Namespace }}{{ end }}
---
{{ toYaml $object }}
{{- end }}
{{- end }}

{{/* What the switch says where there was none: an installation takes the value, anything later is off. */}}
{{- define "sprite-operator.firstSwitch" -}}
{{ ternary .Values.switch.value false .Release.IsInstall | toString }}
{{- end }}

{{- define "sprite-operator.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end }}
{{- end }}

{{/* Everything about the URL that can be known before the operator starts. */}}
{{- define "sprite-operator.url" -}}
{{- $url := required "sprites.url is required: the base URL of the Sprites API, such as --set sprites.url=https://api.example.com" .Values.sprites.url }}
{{- if and (hasPrefix "http://" $url) (not .Values.sprites.allowPlainHttp) }}
{{- fail (printf "sprites.url: %s is not encrypted; write https://, or set sprites.allowPlainHttp to true" $url) }}
{{- end }}
{{- $url }}
{{- end }}
