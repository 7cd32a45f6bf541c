{{/* The image of all systems: by digest where there is one, else by tag. */}}
{{- define "fournos.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* Settings as variables; an empty map is nothing. Numbers of YAML come as floats and are whole (the schema). */}}
{{- define "fournos.settings" -}}
{{- range $name, $value := . }}
- name: {{ $name }}
  value: {{ if kindIs "float64" $value }}{{ $value | int64 | quote }}{{ else }}{{ $value | toString | quote }}{{ end }}
{{- end }}
{{- end -}}

{{/* The variant of the history: where its database is, and its logs and artifacts. */}}
{{- define "fournos.history" -}}
{{ ternary "postgres" "sqlite" (ne .Values.history.database.secret "") }}{{ if .Values.history.s3.secret }}-s3{{ end }}
{{- end -}}
