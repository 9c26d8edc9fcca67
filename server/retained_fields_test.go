package server_test

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/dovetail-go/dovetail/internal/test/waittest"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport/stdio"
)

// A rawClient exchanges lines with a server over stdio.
type rawClient struct {
	t      *testing.T
	input  io.WriteCloser
	lines  *json.Decoder
	served chan error
}

func dialRaw(t *testing.T, s *server.Server) *rawClient {
	in, input := io.Pipe()
	output, out := io.Pipe()
	c := &rawClient{t, input, json.NewDecoder(output), make(chan error, 1)}
	go func() {
		err := stdio.Serve(t.Context(), s, &stdio.ServeOptions{In: in, Out: out})
		_ = out.Close()
		c.served <- err
	}()
	return c
}

// rawAnswer is the part of an answer that tests read. Error is nil for a notification.
type rawAnswer struct{ Error *jsonrpc.Error }

// request sends a request and reads the next message.
func (c *rawClient) request(method string, params []byte) (answer rawAnswer) {
	c.t.Helper()
	if _, err := fmt.Fprintf(c.input, `{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`+"\n", method, params); err != nil {
		c.t.Fatal(err)
	}
	if err := c.lines.Decode(&answer); err != nil {
		c.t.Fatal(err)
	}
	return answer
}

// close ends the connection.
func (c *rawClient) close() {
	c.t.Helper()
	_ = c.input.Close()
	var more json.RawMessage
	for c.lines.Decode(&more) == nil { // what the server has still to send
		continue
	}
	if err := waittest.Receive(c.t, "the end of the server", c.served); err != nil {
		c.t.Error(err)
	}
}

// fill calls visit once for each field in value that can hold a text, when that field has a long one.
func fill(t *testing.T, value reflect.Value, name string, visit func(name string)) {
	t.Helper()
	object := []byte(`{"member":"` + long + `"}`)
	switch kind := value.Kind(); {
	case kind == reflect.Bool || value.CanInt() || value.CanUint() || value.CanFloat():
		return // its size is fixed
	case kind == reflect.String:
		value.SetString(long)
		visit(name)
	case kind == reflect.Slice && value.Type().Elem().Kind() == reflect.Uint8: // JSON
		value.SetBytes(object)
		visit(name)
	case kind == reflect.Map && value.Type().Elem() == reflect.TypeFor[json.RawMessage]():
		value.Set(reflect.MakeMap(value.Type()))
		value.SetMapIndex(reflect.ValueOf("member"), reflect.ValueOf(json.RawMessage(object)))
		visit(name)
	case kind == reflect.Slice:
		value.Set(reflect.MakeSlice(value.Type(), 1, 1))
		fill(t, value.Index(0), name, visit)
	case kind == reflect.Pointer:
		value.Set(reflect.New(value.Type().Elem()))
		fill(t, value.Elem(), name, visit)
	case kind == reflect.Struct:
		for field, of := range value.Fields() {
			fill(t, of, name+"."+field.Name, visit)
		}
	default:
		t.Errorf("%s has the type %v: say here how a test fills it", name, value.Type())
	}
	value.SetZero()
}

// retainedParams are the params that are kept after their request was received.
var retainedParams = map[string]any{
	mcp.MethodInitialize:          &mcp.InitializeParams{ProtocolVersion: mcp.Version20251125},
	mcp.MethodSubscriptionsListen: &mcp.SubscriptionsListenParams{},
	mcp.MethodEventsStream:        &mcp.EventParams{Name: "changed"},
}

// Each field of the protocol that is kept counts toward RetainedBytes, or is refused. A field that is added to a type is found
// by reflection.
func TestEachRetainedFieldCounts(t *testing.T) {
	for method, params := range retainedParams {
		counted := 0
		empty := reflect.ValueOf(params).Elem()
		value := reflect.New(empty.Type()).Elem()
		fill(t, value, empty.Type().Name(), func(name string) {
			filled := reflect.New(empty.Type()).Elem()
			filled.Set(value)
			for i := range filled.NumField() {
				if filled.Field(i).IsZero() {
					filled.Field(i).Set(empty.Field(i))
				}
			}
			text, err := json.Marshal(filled.Addr().Interface())
			if err != nil {
				t.Fatal(name, err)
			}
			if method != mcp.MethodInitialize {
				text = withRequestMeta(t, text)
			}
			if !strings.Contains(string(text), long) {
				t.Fatalf("%s is not in %.200s", name, text)
			}
			s := retainingServer(t)
			c := dialRaw(t, s)
			refused := c.request(method, text).Error
			held := server.Retained(s)
			if refused != nil && held != 0 {
				t.Errorf("%s: %d bytes are counted after the error %v", name, held, refused)
			}
			if refused == nil {
				if counted++; held < int64(len(long)) {
					t.Errorf("%s has %d bytes, and %d are counted", name, len(long), held)
				}
			}
			c.close()
			if held := server.Retained(s); held != 0 {
				t.Errorf("%s: %d bytes are counted after the end of the connection", name, held)
			}
		})
		if counted == 0 {
			t.Errorf("%s is always refused", method)
		}
	}
}

// withRequestMeta adds the _meta of a request of 2026-07-28.
func withRequestMeta(t *testing.T, params []byte) []byte {
	t.Helper()
	var members, meta map[string]json.RawMessage
	if err := json.Unmarshal(params, &members); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(members["_meta"], &meta); err != nil {
		meta = map[string]json.RawMessage{}
	}
	meta[mcp.MetaProtocolVersion] = json.RawMessage(`"` + string(mcp.Version20260728) + `"`)
	meta[mcp.MetaClientCapabilities] = json.RawMessage(fmt.Sprintf(`{"extensions":{%q:{},%q:{}}}`, mcp.ExtensionTasks, mcp.ExtensionEvents))
	var err error
	if members["_meta"], err = json.Marshal(meta); err == nil {
		params, err = json.Marshal(members)
	}
	if err != nil {
		t.Fatal(err)
	}
	return params
}
