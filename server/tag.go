package server

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/dovetail-go/dovetail/mcp"
)

// A methodTag is the annotation of a method.
type methodTag struct {
	of       reflect.Type // ToolTag and its like
	values   reflect.StructTag
	metadata map[string]any // nil if it names none
}

// tagKeys are what the tags of each annotation may say.
func tagKeys(of reflect.Type) []string {
	switch of {
	case reflect.TypeFor[ToolTag]():
		return []string{"name", "title", "description", "readOnly", "destructive", "idempotent", "openWorld", "timeout", "tags", "scopes", "metadata", "reduce"}
	case reflect.TypeFor[ResourceTag]():
		return []string{"uri", "name", "title", "description", "mimeType", "ttl", "cache", "tags", "scopes", "metadata"}
	case reflect.TypeFor[PromptTag]():
		return []string{"name", "title", "description", "tags", "scopes", "metadata"}
	case reflect.TypeFor[CompletionTag]():
		return []string{"prompt", "template", "argument"}
	}
	return nil
}

// tagOf finds the annotation of a parameter, nil if it has none.
func tagOf(t reflect.Type) (*methodTag, error) {
	if t.Kind() != reflect.Struct {
		return nil, nil
	}
	var tag *methodTag
	for field := range t.Fields() {
		keys := tagKeys(field.Type)
		switch {
		case keys == nil:
			continue
		case field.Name != "_":
			return nil, fmt.Errorf("%v: the field of type %v must be blank: _ %v", t, field.Type, field.Type)
		case tag != nil:
			return nil, fmt.Errorf("%v has two annotations", t)
		}
		if err := checkKeys(field.Tag, keys); err != nil {
			return nil, fmt.Errorf("%v: %w", t, err)
		}
		tag = &methodTag{of: field.Type, values: field.Tag}
		var err error
		if tag.metadata, err = tag.pairs("metadata"); err != nil {
			return nil, fmt.Errorf("%v: %w", t, err)
		}
	}
	return tag, nil
}

func isAnnotated(t reflect.Type) bool {
	tag, err := tagOf(t)
	return tag != nil || err != nil
}

// checkKeys refuses a misspelt key, and one that is there twice: it would else be
// ignored for ever.
func checkKeys(tag reflect.StructTag, keys []string) error {
	seen := make(map[string]bool)
	rest := string(tag)
	for rest = strings.TrimLeft(rest, " "); rest != ""; rest = strings.TrimLeft(rest, " ") {
		key, after, ok := strings.Cut(rest, ":")
		if !ok || !slices.Contains(keys, key) {
			return fmt.Errorf("the annotation has a tag %.40q; accepted: %s", key, strings.Join(keys, ", "))
		}
		quoted, err := strconv.QuotedPrefix(after)
		if err != nil {
			return fmt.Errorf(`the annotation's tag %s must look like %s:"…"`, key, key)
		}
		if seen[key] {
			return fmt.Errorf("the annotation has two tags %s", key)
		}
		seen[key] = true
		rest = after[len(quoted):]
	}
	return nil
}

func (t *methodTag) text(key string) string { return t.values.Get(key) }

// list is a tag with commas.
func (t *methodTag) list(key string) []string {
	var items []string
	for item := range strings.SplitSeq(t.text(key), ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// pairs are a list of key=value, nil if there are none. What has a tag of its own is
// none of them: it would be no list.
func (t *methodTag) pairs(key string) (map[string]any, error) {
	var pairs map[string]any
	for _, item := range t.list(key) {
		name, value, ok := strings.Cut(item, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		_, twice := pairs[name]
		switch {
		case !ok || name == "":
			return nil, fmt.Errorf("%s must be pairs such as team=search, not %.40q", key, item)
		case name == "tags" || name == "scopes":
			return nil, fmt.Errorf("%s has %s, which is a tag of its own", key, name)
		case twice:
			return nil, fmt.Errorf("%s has two values of %.40q", key, name)
		}
		if pairs == nil {
			pairs = make(map[string]any)
		}
		pairs[name] = value
	}
	return pairs, nil
}

// hint is "true", "false" or what is usual in the service.
func (t *methodTag) hint(key string, usual *bool) (*bool, error) {
	text, ok := t.values.Lookup(key)
	if !ok {
		return usual, nil
	}
	if text != "true" && text != "false" {
		return nil, fmt.Errorf(`%s must be "true" or "false", not %.40q`, key, text)
	}
	hint := text == "true"
	return &hint, nil
}

func (t *methodTag) duration(key string, usual time.Duration) (time.Duration, error) {
	text, ok := t.values.Lookup(key)
	if !ok {
		return usual, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%s must be a duration such as 30s, not %.40q", key, text)
	}
	return d, nil
}

// cacheHint says how long a resource may be kept, and for whom.
func (t *methodTag) cacheHint() (mcp.CacheHint, error) {
	ttl, err := t.duration("ttl", 0)
	if err != nil {
		return mcp.CacheHint{}, err
	}
	scope := mcp.CacheScope(t.text("cache"))
	if _, said := t.values.Lookup("cache"); said && scope != mcp.CachePrivate && scope != mcp.CachePublic {
		return mcp.CacheHint{}, fmt.Errorf(`cache must be "private" or "public", not %.40q`, scope)
	}
	return mcp.CacheHint{TTLMs: ttl.Milliseconds(), Scope: scope}, nil
}

// snakeCase is a method's name as the name of a tool: ReadURL becomes read_url.
func snakeCase(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		if unicode.IsUpper(r) && i > 0 && runes[i-1] != '_' &&
			(!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
