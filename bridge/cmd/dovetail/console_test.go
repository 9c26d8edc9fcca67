package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/gorilla/websocket"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/transport"
	"github.com/dovetail-go/dovetail/transport/stdio"
)

// consoleLine is the line with the link for operators.
const consoleLine = `console  http://([\d.:]+)/console/#token=(\w+)`

// A consolePage is a connected page of the console.
type consolePage struct {
	t      *testing.T
	socket *websocket.Conn
	asked  int
}

// openConsole connects a page to the console of a program that has printed its link.
func openConsole(t *testing.T, said *output) *consolePage {
	t.Helper()
	link := said.await(t, consoleLine)
	dialer := websocket.Dialer{Subprotocols: []string{"dovetail.console.v1", "dovetail.token." + link[2]}}
	socket, _, err := dialer.DialContext(t.Context(), "ws://"+link[1]+"/console/feed", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	return &consolePage{t: t, socket: socket}
}

// until reads frames of a type until one has what a test waits for, and decodes it.
func (p *consolePage) until(kind string, frame any, found func() bool) {
	p.t.Helper()
	for {
		_, text, err := p.socket.ReadMessage()
		if err != nil {
			p.t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), `{"type":"`+kind+`"`) {
			continue
		}
		if err := json.Unmarshal(text, frame); err != nil {
			p.t.Fatalf("%v: %s", err, text)
		}
		if found() {
			return
		}
	}
}

// row waits for the row of the last call of a tool, until it has an outcome.
func (p *consolePage) row(exposed, outcome string) (id int) {
	p.t.Helper()
	var frame struct {
		Calls []struct {
			ID               int
			Exposed, Outcome string
		}
	}
	p.until("calls", &frame, func() bool {
		for _, call := range frame.Calls {
			if call.Exposed == exposed && call.Outcome == outcome {
				id = call.ID
				return true
			}
		}
		return false
	})
	return id
}

// ask sends a request and decodes the answer.
func (p *consolePage) ask(members string, answer any) {
	p.t.Helper()
	p.asked++
	if err := p.socket.WriteMessage(websocket.TextMessage, fmt.Appendf(nil, `{"id":%d,%s}`, p.asked, members)); err != nil {
		p.t.Fatal(err)
	}
	for {
		_, text, err := p.socket.ReadMessage()
		if err != nil {
			p.t.Fatal(err)
		}
		if strings.HasPrefix(string(text), fmt.Sprintf(`{"type":"answer","id":%d`, p.asked)) {
			if err := json.Unmarshal(text, answer); err != nil {
				p.t.Fatalf("%v: %s", err, text)
			}
			return
		}
	}
}

// programDialer starts the program as a client does.
func programDialer(t *testing.T, said io.Writer, line ...string) transport.Dialer {
	t.Helper()
	return stdio.Command(child(t)[1], line, &stdio.CommandOptions{Env: []string{asProgram + "=1", "GORACE=atexit_sleep_ms=0"}, Stderr: said})
}

// TestConsoleBesideStandardStreams: a program that a client starts has the console at the address of -console, and at a free
// port of this machine if a person approves on a page.
func TestConsoleBesideStandardStreams(t *testing.T) {
	for name, flags := range map[string][]string{"-console": {"-console", "127.0.0.1:0", "-approve", "none"}, "-approve page": {"-approve", "page"}} {
		for _, era := range []client.Era{client.Modern, client.Legacy} {
			t.Run(name+"/"+era.String(), func(t *testing.T) {
				p, said := &program{folder: t.TempDir()}, &output{}
				line := slices.DeleteFunc(p.flags(t), func(word string) bool { return word == "-http" || word == "127.0.0.1:0" })
				session := connect(t, programDialer(t, said, append(line, flags...)...), era)
				page := openConsole(t, said)
				if _, err := session.CallTool(t.Context(), "shelf__look", map[string]string{"path": p.path("file"), "text": "x"}, nil); err != nil {
					t.Fatal(err)
				}
				var shown struct {
					Row       struct{ Version string }
					Arguments struct{ Text string }
				}
				page.ask(fmt.Sprintf(`"do":"call","call":%d`, page.row("shelf__look", "ok")), &shown)
				if !strings.Contains(shown.Arguments.Text, p.path("file")) || shown.Row.Version != string(session.Version()) {
					t.Errorf("the call is %+v", shown)
				}
			})
		}
	}
}

func TestConsoleRefusesOtherAddresses(t *testing.T) {
	occupied, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer occupied.Close()
	for want, flags := range map[string][]string{
		"needs a loopback address":     {"-console", "0.0.0.0:0"},
		"missing port":                 {"-console", "127.0.0.1"},
		"the console is at /console/":  {"-console", "127.0.0.1:0", "-http", "127.0.0.1:0"},
		"choose another address with ": {"-console", occupied.Addr().String()},
	} {
		p := &program{folder: t.TempDir()}
		config := p.write(t, "mcp.json", `{"mcpServers":{}}`)
		if err := run(t.Context(), append([]string{"serve", "-config", config}, flags...), strings.NewReader(""), io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %s", flags, err, want)
		}
	}
}
