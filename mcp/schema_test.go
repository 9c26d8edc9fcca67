package mcp_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dovetail-go/dovetail/internal/test/testsuites"
	"github.com/dovetail-go/dovetail/mcp"
)

// A schemaNode is the part of a JSON Schema that these tests read.
type schemaNode struct {
	Ref                  string                `json:"$ref"`
	Type                 any                   `json:"type"`
	Const                any                   `json:"const"`
	Enum                 []string              `json:"enum"`
	AnyOf                []schemaNode          `json:"anyOf"`
	AllOf                []schemaNode          `json:"allOf"`
	Properties           map[string]schemaNode `json:"properties"`
	Items                *schemaNode           `json:"items"`
	AdditionalProperties json.RawMessage       `json:"additionalProperties"`
}

// A protocolSchema is the official schema of one version.
type protocolSchema struct {
	version mcp.Version
	types   map[string]schemaNode
}

// schemas returns the official schema of every version, or a sample.
func schemas(t *testing.T) (all []protocolSchema, official bool) {
	t.Helper()
	dir, official := testsuites.Dir(t, "mcp")
	if !official {
		dir = "testdata/suite"
	}
	for _, version := range mcp.Versions() {
		data, err := os.ReadFile(filepath.Join(dir, string(version), "schema.json"))
		if os.IsNotExist(err) && !official {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		var file struct{ Definitions, Defs map[string]schemaNode }
		if err := json.Unmarshal([]byte(strings.Replace(string(data), `"$defs"`, `"defs"`, 1)), &file); err != nil {
			t.Fatal(err)
		}
		if file.Defs == nil {
			file.Defs = file.Definitions
		}
		all = append(all, protocolSchema{version, file.Defs})
	}
	if len(all) == 0 {
		t.Fatal("no schema found")
	}
	return all, official
}

// notOurs names the types of the schemas that have no type here, and why.
var notOurs = map[string]string{
	"JSONRPCBatchRequest":                 "package jsonrpc",
	"JSONRPCBatchResponse":                "package jsonrpc",
	"JSONRPCError":                        "package jsonrpc",
	"JSONRPCErrorResponse":                "package jsonrpc",
	"JSONRPCMessage":                      "package jsonrpc",
	"JSONRPCNotification":                 "package jsonrpc",
	"JSONRPCRequest":                      "package jsonrpc",
	"JSONRPCResponse":                     "package jsonrpc",
	"JSONRPCResultResponse":               "package jsonrpc",
	"Notification":                        "package jsonrpc",
	"Request":                             "package jsonrpc",
	"RequestId":                           "jsonrpc.ID",
	"Error":                               "jsonrpc.Error",
	"ParseError":                          "jsonrpc.Error",
	"InvalidRequestError":                 "jsonrpc.Error",
	"MethodNotFoundError":                 "jsonrpc.Error",
	"InvalidParamsError":                  "jsonrpc.Error",
	"InternalError":                       "jsonrpc.Error",
	"HeaderMismatchError":                 "jsonrpc.Error without data",
	"Annotated":                           "abstract: what it has, its children have",
	"BaseMetadata":                        "abstract: what it has, its children have",
	"CacheableResult":                     "abstract: what it has, its children have",
	"Icons":                               "abstract: what it has, its children have",
	"PaginatedResult":                     "abstract: what it has, its children have",
	"MetaObject":                          "Meta, by keys",
	"RequestMetaObject":                   "Meta, by keys",
	"NotificationMetaObject":              "Meta, by keys",
	"ResultMetaObject":                    "Meta, by keys",
	"SubscriptionsListenResultMetaObject": "Meta, by keys",
	"CancelTaskRequest":                   "tasks are not spoken",
	"CancelTaskResult":                    "tasks are not spoken",
	"CreateTaskResult":                    "tasks are not spoken",
	"GetTaskPayloadRequest":               "tasks are not spoken",
	"GetTaskPayloadResult":                "tasks are not spoken",
	"GetTaskRequest":                      "tasks are not spoken",
	"GetTaskResult":                       "tasks are not spoken",
	"ListTasksRequest":                    "tasks are not spoken",
	"ListTasksResult":                     "tasks are not spoken",
	"RelatedTaskMetadata":                 "tasks are not spoken",
	"Task":                                "tasks are not spoken",
	"TaskAugmentedRequestParams":          "tasks are not spoken",
	"TaskMetadata":                        "tasks are not spoken",
	"TaskStatus":                          "tasks are not spoken",
	"TaskStatusNotification":              "tasks are not spoken",
	"TaskStatusNotificationParams":        "tasks are not spoken",
}

// notFields names properties of the schemas that have no field, by the name of
// our type, and why.
var notFields = map[string]string{
	"CallToolRequestParams.task":      "tasks are not spoken; kept in Extra",
	"CreateMessageRequestParams.task": "tasks are not spoken; kept in Extra",
	"ElicitRequestFormParams.task":    "tasks are not spoken; kept in Extra",
}

// notProperties names members that we send and that stand in no schema of that
// type, and why.
var notProperties = map[string]string{
	"ElicitationCompleteNotificationParams._meta": "any notification may carry it",
	"SubscriptionFilter.taskIds":                  "the extension for tasks",
	"SubscriptionFilter.eventsListChanged":        "the extension for events",
}

// ofExtensions names types that are in no schema of the protocol, and their extension.
var ofExtensions = map[string]string{
	"McpUiToolMeta":            "MCP Apps",
	"McpUiResourceMeta":        "MCP Apps",
	"McpUiResourcePermissions": "MCP Apps",
	"McpUiResourceCsp":         "MCP Apps",
}

// A coverage records what the schemas and the types have in common.
type coverage struct {
	// members are the JSON texts of each member that a type sends.
	members map[string]map[string]json.RawMessage
	// seen are the properties that any version has of a type.
	seen map[string]map[string]bool
	used map[string]bool // entries of the tables of exceptions
}

func TestTypesFollowTheSchemas(t *testing.T) {
	all, official := schemas(t)
	c := &coverage{members: make(map[string]map[string]json.RawMessage), seen: make(map[string]map[string]bool), used: make(map[string]bool)}
	for _, schema := range all {
		t.Run(string(schema.version), func(t *testing.T) { c.check(t, schema) })
	}
	for name, members := range c.members {
		for member := range members {
			key := name + "." + member
			if !c.seen[name][member] && !c.excepted(notProperties, key) {
				t.Errorf("%s is in no version of the protocol", key)
			}
		}
	}
	if !official {
		return
	}
	for name := range newCodec {
		if c.seen[name] == nil && len(c.membersOf(t, name)) > 0 && !c.excepted(ofExtensions, name) {
			t.Errorf("%s is a type of no version of the protocol", name)
		}
	}
	for _, table := range []map[string]string{notOurs, notFields, notProperties, ofExtensions} {
		for key := range table {
			if !c.used[key] {
				t.Errorf("the exception for %s is not needed", key)
			}
		}
	}
}

func (c *coverage) excepted(table map[string]string, key string) bool {
	if table[key] == "" {
		return false
	}
	c.used[key] = true
	return true
}

func (c *coverage) check(t *testing.T, schema protocolSchema) {
	for _, name := range slices.Sorted(maps.Keys(schema.types)) {
		node := schema.types[name]
		switch params, isMessage := node.Properties["params"]; {
		case c.excepted(notOurs, name):
		case node.Properties["method"].Const != nil || name == "PaginatedRequest":
			if isMessage && params.Ref == "" {
				c.object(t, schema, paramsType(name), params)
			}
		case node.Properties["error"].AllOf != nil:
			for _, part := range node.Properties["error"].AllOf {
				if data, ok := part.Properties["data"]; ok {
					c.object(t, schema, name+"Data", data)
				}
			}
		case strings.HasSuffix(name, "ResultResponse"), len(node.Properties) == 0:
			// An envelope, a union or a scalar: covered where it is used.
		default:
			c.object(t, schema, canonicalType(name), node)
		}
	}
}

func paramsType(message string) string {
	if name, ok := paramsOf[message]; ok {
		return name
	}
	return message + "Params"
}

// object compares one object of a schema with the type of that name.
func (c *coverage) object(t *testing.T, schema protocolSchema, name string, node schemaNode) {
	if newCodec[name] == nil && !strings.Contains(name, ".") {
		t.Errorf("there is no type for %s", name)
		return
	}
	members := c.membersOf(t, name)
	if c.seen[name] == nil {
		c.seen[name] = make(map[string]bool)
	}
	for property, want := range node.Properties {
		c.seen[name][property] = true
		key := name + "." + property
		value := members[property]
		if value == nil {
			if !c.excepted(notFields, key) {
				t.Errorf("there is no field for %s", key)
			}
			continue
		}
		if kinds := schema.kinds(want); kinds != nil && !kinds[kindOf(value)] {
			t.Errorf("%s goes out as %s, want one of %v", key, kindOf(value), slices.Sorted(maps.Keys(kinds)))
		}
		if len(want.Properties) > 0 && kindOf(value) == "object" {
			c.nested(t, schema, key, want, value)
		}
	}
}

// nested compares an object that has no name of its own, unless we keep it raw.
func (c *coverage) nested(t *testing.T, schema protocolSchema, path string, node schemaNode, value json.RawMessage) {
	switch path[strings.LastIndexByte(path, '.')+1:] {
	case "_meta", "inputSchema", "outputSchema", "requestedSchema", "tasks":
		return
	case "annotations": // has a name since 2025-03-26
		path = "Annotations"
	}
	if c.members[path] == nil {
		c.members[path] = membersOf(t, value)
	}
	c.object(t, schema, path, node)
}

// membersOf are the members that a sample of a type sends.
func (c *coverage) membersOf(t *testing.T, name string) map[string]json.RawMessage {
	if c.members[name] == nil {
		c.members[name] = membersOf(t, appended(t, sample(name)))
	}
	return c.members[name]
}

func membersOf(t *testing.T, object json.RawMessage) (members map[string]json.RawMessage) {
	if err := json.Unmarshal(object, &members); err != nil {
		t.Fatal(err)
	}
	return members
}

// kinds are the JSON types that a property may have; nil is any.
func (s protocolSchema) kinds(node schemaNode) map[string]bool {
	switch types := node.Type.(type) {
	case string:
		return kindSet(types)
	case []any:
		set := make(map[string]bool)
		for _, one := range types {
			maps.Copy(set, kindSet(one.(string)))
		}
		return set
	}
	if node.Ref != "" {
		return s.kinds(s.types[node.Ref[strings.LastIndex(node.Ref, "/")+1:]])
	}
	var set map[string]bool
	for _, one := range node.AnyOf {
		kinds := s.kinds(one)
		if kinds == nil {
			return nil
		}
		if set == nil {
			set = make(map[string]bool)
		}
		maps.Copy(set, kinds)
	}
	return set
}

func kindSet(name string) map[string]bool {
	if name == "integer" {
		// The generator of the official schemas writes integer for every
		// number in some places.
		name = "number"
	}
	return map[string]bool{name: true}
}

func kindOf(value json.RawMessage) string {
	switch value[0] {
	case '"':
		return "string"
	case '{':
		return "object"
	case '[':
		return "array"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	return "number"
}

// TestConstantsFollowTheSchemas checks that enumerations of the schemas equal the constants.
func TestConstantsFollowTheSchemas(t *testing.T) {
	all, official := schemas(t)
	found := make(map[string]map[string]bool)
	for _, schema := range all {
		for name, node := range schema.types {
			collectEnums(found, name, node)
		}
	}
	for path, want := range map[string][]string{
		"LoggingLevel":        words(mcp.LoggingLevels()...),
		"Role":                words(mcp.RoleUser, mcp.RoleAssistant),
		"Icon.theme":          words(mcp.IconLight, mcp.IconDark),
		"ElicitResult.action": words(mcp.ElicitAccept, mcp.ElicitDecline, mcp.ElicitCancel),
		"CreateMessageRequestParams.includeContext": words(mcp.IncludeNone, mcp.IncludeThisServer, mcp.IncludeAllServers),
		"ToolChoice.mode":            words(mcp.ToolChoiceAuto, mcp.ToolChoiceRequired, mcp.ToolChoiceNone),
		"CacheableResult.cacheScope": words(mcp.CachePublic, mcp.CachePrivate),
		"StringSchema.format":        words(mcp.FormatEmail, mcp.FormatURI, mcp.FormatDate, mcp.FormatDateTime),
		"NumberSchema.type":          {"number", "integer"},
		"ToolExecution.taskSupport":  {"forbidden", "optional", "required"},
	} {
		got := slices.Sorted(maps.Keys(found[path]))
		slices.Sort(want)
		if (official || len(got) > 0) && !slices.Equal(got, want) {
			t.Errorf("%s: the schemas have %q, we have %q", path, got, want)
		}
	}
}

func words[S ~string](all ...S) []string {
	text := make([]string, len(all))
	for i, one := range all {
		text[i] = string(one)
	}
	return text
}

func collectEnums(found map[string]map[string]bool, path string, node schemaNode) {
	for _, word := range node.Enum {
		if found[path] == nil {
			found[path] = make(map[string]bool)
		}
		found[path][word] = true
	}
	for name, property := range node.Properties {
		collectEnums(found, path+"."+name, property)
	}
}

// TestMethodsFollowTheSchemas checks that every method of the schemas has a constant.
func TestMethodsFollowTheSchemas(t *testing.T) {
	known := []string{
		mcp.MethodInitialize, mcp.MethodDiscover, mcp.MethodPing, mcp.MethodToolsList, mcp.MethodToolsCall,
		mcp.MethodPromptsList, mcp.MethodPromptsGet, mcp.MethodResourcesList, mcp.MethodResourceTemplatesList,
		mcp.MethodResourcesRead, mcp.MethodResourcesSubscribe, mcp.MethodResourcesUnsubscribe,
		mcp.MethodSubscriptionsListen, mcp.MethodComplete, mcp.MethodSetLevel, mcp.MethodCreateMessage,
		mcp.MethodRootsList, mcp.MethodElicit,
		mcp.NotificationInitialized, mcp.NotificationCancelled, mcp.NotificationProgress, mcp.NotificationMessage,
		mcp.NotificationResourceUpdated, mcp.NotificationResourcesListChanged, mcp.NotificationToolsListChanged,
		mcp.NotificationPromptsListChanged, mcp.NotificationRootsListChanged,
		mcp.NotificationElicitationComplete, mcp.NotificationAcknowledged,
	}
	all, official := schemas(t)
	found := make(map[string]bool)
	for _, schema := range all {
		for name, node := range schema.types {
			if method, ok := node.Properties["method"].Const.(string); ok && !strings.Contains(notOurs[name], "tasks") {
				found[method] = true
				if !slices.Contains(known, method) {
					t.Errorf("%s: no constant for %s", schema.version, method)
				}
			}
		}
	}
	for _, method := range known {
		if official && !found[method] {
			t.Errorf("%s is a method of no version", method)
		}
	}
}

// notDecoded names the kinds of official examples that this package has no
// type for, and why.
var notDecoded = map[string]string{
	"HeaderMismatchError": "jsonrpc.Error without data",
	"InputRequests":       "a map: covered by InputRequiredResult",
	"InputResponses":      "a map: covered by the parameters that hold it",
	"InternalError":       "jsonrpc.Error",
	"InvalidParamsError":  "jsonrpc.Error",
	"MethodNotFoundError": "jsonrpc.Error",
	"ParseError":          "jsonrpc.Error",
}

// TestExamples decodes and encodes every example of the specification.
func TestExamples(t *testing.T) {
	dir, official := testsuites.Dir(t, "mcp/schema")
	if !official {
		dir = "testdata/suite"
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "examples", "*", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples in %s: %v", dir, err)
	}
	used := make(map[string]bool)
	for _, file := range files {
		kind := filepath.Base(filepath.Dir(file))
		if notDecoded[kind] != "" {
			used[kind] = true
			continue
		}
		t.Run(kind+"/"+filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			name, data := objectOf(t, kind, data)
			if newCodec[name] == nil {
				t.Fatalf("no type for %s", name)
			}
			checkSentOn(t, name, data)
			checkSentOn(t, name, plant(t, data))
		})
	}
	for kind := range notDecoded {
		if official && !used[kind] {
			t.Errorf("the exception for %s is not needed", kind)
		}
	}
}

// objectOf takes what is ours out of a message.
func objectOf(t *testing.T, kind string, data []byte) (name string, object []byte) {
	t.Helper()
	var message struct {
		Params, Result json.RawMessage
		Error          struct{ Data json.RawMessage }
	}
	if err := json.Unmarshal(data, &message); err != nil {
		t.Fatal(err)
	}
	switch {
	case strings.HasSuffix(kind, "ResultResponse"):
		return canonicalType(strings.TrimSuffix(kind, "Response")), message.Result
	case strings.HasSuffix(kind, "Request"), strings.HasSuffix(kind, "Notification"):
		if message.Params == nil {
			message.Params = json.RawMessage("{}")
		}
		return canonicalType(paramsType(kind)), message.Params
	case strings.HasSuffix(kind, "Error"):
		return kind + "Data", message.Error.Data
	}
	return canonicalType(kind), data
}

func checkSentOn(t *testing.T, name string, data []byte) {
	t.Helper()
	value := newCodec[name]()
	if err := value.UnmarshalJSON(data); err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	want, got := plainJSON(t, data), plainJSON(t, appended(t, value))
	if diff := cmp.Diff(asSent(want), got); diff != "" {
		t.Errorf("changed on its way (-came +went):\n%s", diff)
	}
}

// asSent converts a value to the encoded form where the protocol allows two: in sampling, one block
// instead of an array, and no flags that are false.
func asSent(value any) any {
	switch value := value.(type) {
	case []any:
		for i := range value {
			value[i] = asSent(value[i])
		}
	case map[string]any:
		for key := range value {
			value[key] = asSent(value[key])
		}
		if blocks, ok := value["content"].([]any); ok && len(blocks) == 1 && value["role"] != nil {
			value["content"] = blocks[0]
		}
		maps.DeleteFunc(value, func(key string, value any) bool {
			return value == false && (key == "isError" || key == "hasMore")
		})
	}
	return value
}

// closed names the members whose objects are not ours to extend: a map of
// strings, or an object that another type holds.
var closed = map[string]string{
	"inputRequests": "a map of questions, which are a method and its params",
	"items":         "a keyword of JSON Schema, in the schema of a choice",
	"oneOf":         "a keyword of JSON Schema, in the schema of a choice",
	"anyOf":         "a keyword of JSON Schema, in the schema of a choice",
}

// plant adds an unknown member to every object of a text.
func plant(t *testing.T, data []byte) []byte {
	t.Helper()
	count := 0
	var visit func(value any, stringsOnly bool)
	visit = func(value any, stringsOnly bool) {
		switch value := value.(type) {
		case []any:
			for _, item := range value {
				visit(item, false)
			}
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(value)) {
				_, isClosed := closed[key]
				if !isClosed {
					visit(value[key], key == "arguments")
				}
			}
			if count++; stringsOnly {
				value["x-unknown"] = "planted"
			} else {
				value["x-unknown"] = map[string]any{"nth": json.Number(strconv.Itoa(count)), "deep": []any{json.Number("1.0"), nil}}
			}
		}
	}
	value := plainJSON(t, data)
	visit(value, false)
	planted, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(planted, data) {
		t.Fatal("nothing was planted")
	}
	return planted
}

func TestUnknownMembersAreAddedEverywhere(t *testing.T) {
	planted := plant(t, []byte(`{"a":{"b":[{}]},"arguments":{"c":"d"},"items":{}}`))
	if n := bytes.Count(planted, []byte("x-unknown")); n != 4 {
		t.Errorf("planted %d members, want 4: %s", n, planted)
	}
}
