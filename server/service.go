package server

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/mcp"
)

// These types annotate the methods of a service: a blank field of one of them in
// the struct that a method takes says what the method is, and the field's tag what
// it is called and how it is described.
type (
	// ToolTag makes a method a tool. Tags: name (default: the method's name in
	// snake_case), title, description, readOnly, destructive, idempotent, openWorld
	// ("true" or "false"), timeout (a Go duration), tags and scopes (lists, with
	// commas), metadata (such a list of key=value).
	ToolTag struct{}
	// ResourceTag makes a method a resource, or a resource template when its uri
	// has variables, which are the struct's other fields. Tags: uri, name, title,
	// description, mimeType, ttl (a Go duration) and cache ("private" or "public") for
	// its CacheHint, tags, scopes, metadata.
	ResourceTag struct{}
	// PromptTag makes a method a prompt, whose arguments are the struct's other
	// fields. Tags: name, title, description, tags, scopes, metadata.
	PromptTag struct{}
	// CompletionTag makes a method a completion. Tags: prompt or template, and
	// argument; scopes, metadata. The struct's field Value string is what has been
	// typed, and a field Others map[string]string, if there is one, what is known
	// already.
	CompletionTag struct{}
)

// What tags and scopes are called in the metadata of an entry (see [Around]). The tag
// metadata adds strings by other keys, and wins over the service's Around. Scopes are
// needed in addition to those of all that stands around.
const (
	MetadataTags   = "tags"   // []string
	MetadataScopes = "scopes" // []string
)

// Annotations are what all methods of a service have in common, unless their own
// tags say something else. A service has them if it has a method Annotations()
// server.Annotations.
type Annotations struct {
	// Tool are the hints of its tools.
	Tool mcp.ToolAnnotations
	// Timeout is that of its tools.
	Timeout time.Duration
	// Tags and Scopes are added to those of each method.
	Tags   []string
	Scopes []string
	// Around stands around all its methods.
	Around Around
}

// Descriptions are texts for the methods of a service and the fields of their
// arguments, for a service with a method Descriptions() server.Descriptions. The
// command server/mcpgen writes one from doc comments. What a tag says wins.
type Descriptions map[string]string // "Method" or "Method.field"

// AddService registers the methods of a service: of a struct, or a pointer to one.
// Exposed are exactly its exported methods that take a context.Context, those of
// embedded types too; each must fit, others are left alone.
//
// A method fits that takes, in any order, a context.Context, a struct with a blank
// field of type [ToolTag], [ResourceTag], [PromptTag] or [CompletionTag], and as it
// likes a *[Request] and values of Options.Lifespan; and that returns an error, or a
// result as in [AddTool], [AddResource], [AddPrompt] and an error.
//
//	type SearchIn struct {
//		_     server.ToolTag `name:"search" description:"Full-text search" readOnly:"true"`
//		Query string         `json:"query" jsonschema:"minLength=1"`
//	}
//
//	func (s *Shop) Search(ctx context.Context, in SearchIn, db *DB) ([]Item, error)
//
// It panics, naming the place, the method and what would fit, when the service
// cannot be registered.
func AddService(s *Server, service any) {
	entries, err := Service(service)
	if err == nil {
		if err = s.registry.put(entries, false); err != nil {
			err = fmt.Errorf("service %T: %w", service, err)
		}
	}
	if err != nil {
		_, file, line, _ := runtime.Caller(1)
		panic(fmt.Sprintf("%s:%d: %v", file, line, err))
	}
	s.tellListsChanged(entries)
}

// Service checks and compiles the methods of a service for [Server.Replace]. The
// entries are in the order of the methods' names.
func Service(service any) ([]Entry, error) {
	value := reflect.ValueOf(service)
	if !value.IsValid() || value.Kind() == reflect.Pointer && value.IsNil() {
		return nil, errors.New("a service must not be nil")
	}
	if err := checkService(value.Type()); err != nil {
		return nil, fmt.Errorf("service %T: %w", service, err)
	}
	of := serviceOf(service)
	var entries []Entry
	methods := make(map[entryKey]string)
	for method := range value.Type().Methods() {
		if !takesContext(method.Type) {
			continue
		}
		entry, err := of.method(value, method)
		if err == nil {
			if other, there := methods[entry.key()]; there {
				err = fmt.Errorf("%s is the %v %q already", other, entry.key().kind, entry.key().label())
			}
		}
		if err != nil {
			return nil, fmt.Errorf("service %T: method %s%s: %w", service, method.Name, signature(value.Method(method.Index).Type()), err)
		}
		methods[entry.key()] = method.Name
		entries = append(entries, entry)
	}
	if len(entries) == 0 {
		return nil, fmt.Errorf("service %T has no exported method that takes a context.Context", service)
	}
	return entries, nil
}

func takesContext(method reflect.Type) bool {
	for in := range method.Ins() {
		if in == contextType {
			return true
		}
	}
	return false
}

// signature is that of a method without its receiver.
func signature(method reflect.Type) string {
	return strings.TrimPrefix(method.String(), "func")
}

// service is what the methods of one have in common.
type service struct {
	Annotations
	descriptions Descriptions
}

func serviceOf(value any) *service {
	s := &service{}
	if value, ok := value.(withAnnotations); ok {
		s.Annotations = value.Annotations()
	}
	if value, ok := value.(withDescriptions); ok {
		s.descriptions = value.Descriptions()
	}
	return s
}

// method makes an entry of a method.
func (s *service) method(value reflect.Value, method reflect.Method) (Entry, error) {
	plan, err := newPlan(value, method)
	if err != nil {
		return nil, err
	}
	entry, err := s.entry(method.Name, plan)
	if err != nil {
		return nil, err
	}
	return entry.within(s.Around), nil
}

// metadata is that of one method.
func (s *service) metadata(tag *methodTag) Around {
	metadata := overlaid(tag.metadata, make(map[string]any))
	if tags := append(slices.Clip(s.Tags), tag.list("tags")...); len(tags) > 0 {
		metadata[MetadataTags] = tags
	}
	if scopes := append(slices.Clip(s.Scopes), tag.list("scopes")...); len(scopes) > 0 {
		metadata[MetadataScopes] = scopes
	}
	if len(metadata) == 0 {
		return Around{}
	}
	return Around{Metadata: metadata}
}
