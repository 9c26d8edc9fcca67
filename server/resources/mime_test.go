package resources_test

import (
	"mime"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/server/resources"
)

func TestTypes(t *testing.T) {
	for name, want := range map[string]string{
		"a.json": "application/json", "A.JSON": "application/json", "a.tar.gz": "application/gzip", "dir.md/a": "", "a": "", ".gitignore": "",
		"a.yaml": "application/yaml", "a.yml": "application/yaml", "a.toml": "application/toml", "a.svg": "image/svg+xml", "a.ts": "text/x-typescript",
		"a.go": "text/x-go", "a.unheard-of": "", "a.": "", "README.md": "text/markdown",
	} {
		if got := resources.TypeOf(name); got != want {
			t.Errorf("the type of %s is %q, want %q", name, got, want)
		}
	}
	for extension, mimeType := range resources.Types {
		media, _, err := mime.ParseMediaType(mimeType)
		if err != nil || media != mimeType || extension != strings.ToLower(extension) || extension[0] != '.' {
			t.Errorf("%s is %s: %v", extension, mimeType, err)
		}
	}
}

func TestTypesOfText(t *testing.T) {
	for _, mimeType := range []string{
		"text/plain", "TEXT/HTML", "text/html; charset=utf-8", "text/html; charset=UTF-8", "text/plain; charset=us-ascii", "application/json", "application/xml",
		"application/ld+json", "image/svg+xml", "application/yaml", "application/openapi+yaml", "application/toml", "text/javascript", "application/javascript",
		"application/x-yaml", "application/vnd.api+json; version=1",
	} {
		if !resources.IsText(mimeType) {
			t.Errorf("%s is no text", mimeType)
		}
	}
	for _, mimeType := range []string{
		"", "image/png", "application/octet-stream", "application/zip", "application/json+zip", "text", "texts/plain", "text/plain; charset=utf-16",
		"text/html; charset=iso-8859-1", "application/epub+zip", "a/b/c", "application/+",
	} {
		if resources.IsText(mimeType) {
			t.Errorf("%s is text", mimeType)
		}
	}
}

func TestTypesOfAnswers(t *testing.T) {
	for contentType, want := range map[string]string{
		"": "", "text/plain": "text/plain", "Text/HTML; charset=UTF-8": "text/html", "application/json;charset=utf-8": "application/json",
		"text/html; charset=iso-8859-1": "text/html; charset=iso-8859-1", "multipart/mixed; boundary=x": "multipart/mixed", "nonsense": "", ";": "", "text/": "",
	} {
		if got := resources.TypeOfAnswer(contentType); got != want {
			t.Errorf("%q tells the type %q, want %q", contentType, got, want)
		}
	}
}
