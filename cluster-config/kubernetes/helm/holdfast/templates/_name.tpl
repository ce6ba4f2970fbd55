{{- /* The name of all objects. The rules for Prometheus expect a job that begins with `holdfast`. */ -}}
{{- define "holdfast.name" -}}
{{- if hasPrefix "holdfast" .Release.Name -}}{{ .Release.Name }}{{- else -}}holdfast-{{ .Release.Name }}{{- end -}}
{{- end -}}
{{- /* The scheme of the HTTP port. */ -}}
{{- define "holdfast.scheme" -}}
{{- if and .Values.tls.secretName (ne (toString (get .Values.settings "http.tls")) "off") -}}https{{- else -}}http{{- end -}}
{{- end -}}
