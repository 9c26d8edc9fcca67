package mcp_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// A codec is implemented by every object type of the package.
type codec interface {
	json.Marshaler
	json.Unmarshaler
}

// appendTo appends a value as it is in a message.
func appendTo(dst []byte, value any) ([]byte, error) {
	if r, ok := value.(mcp.Result); ok {
		return r.AppendJSON(dst)
	}
	encoded, err := value.(json.Marshaler).MarshalJSON()
	return append(dst, encoded...), err
}

// newCodec returns an empty value of each object type, by its name in the official schemas. Several
// names can have one type, where versions differ.
var newCodec = map[string]func() codec{
	"Annotations":                           of[mcp.Annotations],
	"AudioContent":                          of[mcp.AudioContent],
	"BlobResourceContents":                  of[mcp.BlobResourceContents],
	"BooleanSchema":                         of[mcp.BooleanSchema],
	"CallToolRequestParams":                 of[mcp.CallToolParams],
	"CallToolResult":                        of[mcp.CallToolResult],
	"CancelledNotificationParams":           of[mcp.CancelledParams],
	"ClientCapabilities":                    of[mcp.ClientCapabilities],
	"CompleteRequestParams":                 of[mcp.CompleteParams],
	"CompleteResult":                        of[mcp.CompleteResult],
	"CreateMessageRequestParams":            of[mcp.CreateMessageParams],
	"CreateMessageResult":                   of[mcp.CreateMessageResult],
	"DiscoverResult":                        of[mcp.DiscoverResult],
	"ElicitRequestFormParams":               of[mcp.ElicitParams],
	"ElicitResult":                          of[mcp.ElicitResult],
	"ElicitationCompleteNotificationParams": of[mcp.ElicitationCompleteParams],
	"EmbeddedResource":                      of[mcp.EmbeddedResource],
	"EmptyResult":                           of[mcp.EmptyResult],
	"EnumSchema":                            of[mcp.EnumSchema],
	"GetPromptRequestParams":                of[mcp.GetPromptParams],
	"GetPromptResult":                       of[mcp.GetPromptResult],
	"Icon":                                  of[mcp.Icon],
	"ImageContent":                          of[mcp.ImageContent],
	"Implementation":                        of[mcp.Implementation],
	"InitializeRequestParams":               of[mcp.InitializeParams],
	"InitializeResult":                      of[mcp.InitializeResult],
	"InputRequiredResult":                   of[mcp.InputRequiredResult],
	"ListPromptsResult":                     of[mcp.ListPromptsResult],
	"ListResourceTemplatesResult":           of[mcp.ListResourceTemplatesResult],
	"ListResourcesResult":                   of[mcp.ListResourcesResult],
	"ListRootsResult":                       of[mcp.ListRootsResult],
	"ListToolsResult":                       of[mcp.ListToolsResult],
	"LoggingMessageNotificationParams":      of[mcp.LoggingMessageParams],
	"ModelHint":                             of[mcp.ModelHint],
	"ModelPreferences":                      of[mcp.ModelPreferences],
	"NumberSchema":                          of[mcp.NumberSchema],
	"PaginatedRequestParams":                of[mcp.PaginatedParams],
	"ProgressNotificationParams":            of[mcp.ProgressParams],
	"Prompt":                                of[mcp.Prompt],
	"PromptArgument":                        of[mcp.PromptArgument],
	"PromptMessage":                         of[mcp.PromptMessage],
	"PromptReference":                       of[mcp.CompletionReference],
	"ReadResourceRequestParams":             of[mcp.ReadResourceParams],
	"ReadResourceResult":                    of[mcp.ReadResourceResult],
	"RequestParams":                         of[mcp.EmptyParams],
	"Resource":                              of[mcp.Resource],
	"ResourceLink":                          of[mcp.ResourceLink],
	"ResourceTemplate":                      of[mcp.ResourceTemplate],
	"ResourceUpdatedNotificationParams":     of[mcp.ResourceParams],
	"Root":                                  of[mcp.Root],
	"SamplingMessage":                       of[mcp.SamplingMessage],
	"ServerCapabilities":                    of[mcp.ServerCapabilities],
	"SetLevelRequestParams":                 of[mcp.SetLevelParams],
	"StringSchema":                          of[mcp.StringSchema],
	"SubscribeRequestParams":                of[mcp.ResourceParams],
	"SubscriptionFilter":                    of[mcp.SubscriptionFilter],
	"SubscriptionsAcknowledgedNotificationParams": of[mcp.SubscriptionsListenParams],
	"SubscriptionsListenRequestParams":            of[mcp.SubscriptionsListenParams],
	"TextContent":                                 of[mcp.TextContent],
	"TextResourceContents":                        of[mcp.TextResourceContents],
	"Tool":                                        of[mcp.Tool],
	"ToolAnnotations":                             of[mcp.ToolAnnotations],
	"ToolChoice":                                  of[mcp.ToolChoice],
	"ToolExecution":                               of[mcp.ToolExecution],
	"ToolResultContent":                           of[mcp.ToolResultContent],
	"ToolUseContent":                              of[mcp.ToolUseContent],
	"TitledMultiSelectEnumSchema":                 of[mcp.EnumSchema],
	"TitledSingleSelectEnumSchema":                of[mcp.EnumSchema],
	"UntitledMultiSelectEnumSchema":               of[mcp.EnumSchema],
	"UntitledSingleSelectEnumSchema":              of[mcp.EnumSchema],
	"UnsubscribeRequestParams":                    of[mcp.ResourceParams],

	// Data of errors have no names of their own in the schemas.
	"MissingRequiredClientCapabilityErrorData": of[mcp.MissingClientCapabilityData],
	"UnsupportedProtocolVersionErrorData":      of[mcp.UnsupportedVersionData],
	"URLElicitationRequiredErrorData":          of[mcp.URLElicitationRequiredData],

	// MCP Apps has schemas of its own.
	"McpUiResourceCsp":         of[mcp.CSP],
	"McpUiResourceMeta":        of[mcp.ResourceUI],
	"McpUiResourcePermissions": of[mcp.UIPermissions],
	"McpUiToolMeta":            of[mcp.ToolUI],
}

func of[T any, P interface {
	*T
	codec
}]() codec {
	return P(new(T))
}

// typeOf maps names of the schemas to Go types, if the name is not
// its own.
var typeOf = map[string]string{
	"ElicitRequestURLParams":     "ElicitRequestFormParams",
	"ElicitRequestParams":        "ElicitRequestFormParams",
	"InputResponseRequestParams": "ReadResourceRequestParams",
	"LegacyTitledEnumSchema":     "EnumSchema",
	"NotificationParams":         "RequestParams",
	"ResourceReference":          "PromptReference",
	"ResourceRequestParams":      "ReadResourceRequestParams",
	"ResourceTemplateReference":  "PromptReference",
	"Result":                     "EmptyResult",
	"SubscriptionsListenResult":  "EmptyResult",
	"ResourceContents":           "TextResourceContents",
}

// paramsOf is the type of a method's parameters, where it is not called after
// the method.
var paramsOf = map[string]string{
	"DiscoverRequest":                 "RequestParams",
	"ElicitRequest":                   "ElicitRequestFormParams",
	"InitializedNotification":         "RequestParams",
	"ListPromptsRequest":              "PaginatedRequestParams",
	"ListResourceTemplatesRequest":    "PaginatedRequestParams",
	"ListResourcesRequest":            "PaginatedRequestParams",
	"ListRootsRequest":                "RequestParams",
	"ListToolsRequest":                "PaginatedRequestParams",
	"PaginatedRequest":                "PaginatedRequestParams",
	"PingRequest":                     "RequestParams",
	"PromptListChangedNotification":   "RequestParams",
	"ResourceListChangedNotification": "RequestParams",
	"RootsListChangedNotification":    "RequestParams",
	"ToolListChangedNotification":     "RequestParams",
}

func canonicalType(name string) string {
	if other, ok := typeOf[name]; ok {
		return other
	}
	return name
}

// sample returns a value of a type with every member that the type can send.
func sample(name string) codec {
	if strings.HasSuffix(name, "EnumSchema") {
		return enumSample(name)
	}
	value := newCodec[name]()
	fill(reflect.ValueOf(value).Elem())
	return value
}

// enumSample returns the form of a choice that the schemas call by that name.
func enumSample(name string) codec {
	one := 1
	enum := &mcp.EnumSchema{Title: "t", Description: "d", Options: []mcp.EnumOption{{Value: "a"}}, Default: []string{"a"}}
	if !strings.HasPrefix(name, "Untitled") {
		enum.Options[0].Title = "A"
	}
	if strings.Contains(name, "MultiSelect") {
		enum.Multiple, enum.MinItems, enum.MaxItems = true, &one, &one
	}
	enum.EnumNames = name == "EnumSchema"
	return enum
}

// fill sets every field except Extra.
func fill(v reflect.Value) {
	switch v.Interface().(type) {
	case json.RawMessage:
		v.SetBytes([]byte(`{"b":2,"a":[1.50,"\u00e9"]}`))
		return
	case mcp.Meta:
		v.SetBytes([]byte(`{"com.example/b":2,"a":1e2}`))
		return
	case mcp.ProgressToken:
		v.SetBytes([]byte(`"t\u006f"`))
		return
	case mcp.Extra:
		return
	case jsonrpc.ID:
		v.Set(reflect.ValueOf(jsonrpc.IntID(7)))
		return
	case mcp.ResultType:
		v.SetString(string(mcp.ResultInputRequired))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(field)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte{0, 1, 254, 255})
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		element := reflect.New(v.Type().Elem()).Elem()
		fill(element)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key"), element)
	case reflect.Interface:
		if v.Type() == reflect.TypeFor[mcp.Content]() {
			v.Set(reflect.ValueOf(mcp.Text("<text> & \u2028")))
			return
		}
		v.Set(reflect.ValueOf(&mcp.TextResourceContents{URI: "file:///a", Text: "text"}))
	case reflect.String:
		v.SetString("<text> & \u2028")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Float64:
		v.SetFloat(1.5)
	default:
		panic("no sample for " + v.Type().String())
	}
}

// A decoded tool does not refer to the text of the list.
func TestListsAreCopied(t *testing.T) {
	data := []byte(`{"tools":[{"name":"a","title":"t","inputSchema":{"b":1},"_meta":{"c":1},"x":1}]}`)
	var page mcp.ListToolsResult
	if err := page.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	clear(data)
	want := mcp.Tool{Name: "a", Title: "t", InputSchema: json.RawMessage(`{"b":1}`), Meta: mcp.Meta(`{"c":1}`), Extra: mcp.Extra(`{"x":1}`)}
	if diff := cmp.Diff(want, page.Tools[0]); diff != "" {
		t.Error(diff)
	}
}
