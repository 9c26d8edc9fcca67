package openapi

import (
	"mime"
	"strings"
)

// mediaType returns a media type in lower case, without parameters.
func mediaType(header string) string {
	media, _, _ := strings.Cut(header, ";")
	return strings.ToLower(strings.TrimSpace(media))
}

func isJSON(media string) bool {
	return media == "application/json" || media == "text/json" || strings.HasSuffix(media, "+json")
}

// isText says whether something of that type is for reading.
func isText(media string) bool {
	switch media {
	case "application/xml", "application/yaml", "application/x-yaml", "application/toml", "application/javascript",
		"application/x-ndjson", "application/x-www-form-urlencoded", "application/graphql", "application/sql":
		return true
	}
	return strings.HasPrefix(media, "text/") || isJSON(media) ||
		strings.HasSuffix(media, "+xml") || strings.HasSuffix(media, "+yaml")
}

// concrete is the type to send where a document allows a range of them.
func concrete(media, otherwise string) string {
	if _, _, err := mime.ParseMediaType(media); err != nil || strings.Contains(media, "*") {
		return otherwise
	}
	return media
}
