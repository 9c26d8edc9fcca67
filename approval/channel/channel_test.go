package channel_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dovetail-go/dovetail/internal/test/memnet"

	"github.com/gorilla/websocket"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/approval/channel"
)

// TestOriginalTranscript replays the traffic of an older program, without a subprotocol
// and with three members in the params.
func TestOriginalTranscript(t *testing.T) {
	virtual(t, &channel.Options{InsecureNoToken: true, FailOnDisconnect: true}, func(t *testing.T, r *rig) {
		wantError(t, r.ask(t, "0"), approval.NoApprover, "Approval channel not connected")
		d := websocket.Dialer{NetDialContext: r.network.DialContext}
		conn, _, err := d.Dial(address, nil) // without a token
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
		synctest.Wait()

		a := r.connect(t)
		for _, approved := range []bool{true, false} {
			done := r.ask(t, "6f9619ff-8b86-d011-b42d-00cf4fc964ff")
			frame := a.next(t)
			const begin = `{"jsonrpc":"2.0","method":"approve","params":{"server_name":"files","tool_name":"write","tool_args":{"n":1},`
			if !strings.HasPrefix(frame, begin) || !strings.HasSuffix(frame, `},"id":"6f9619ff-8b86-d011-b42d-00cf4fc964ff"}`) {
				t.Errorf("the frame is %s", frame)
			}
			answer := fmt.Sprintf(`{"jsonrpc": "2.0", "result": %t, "id": "6f9619ff-8b86-d011-b42d-00cf4fc964ff"}`, approved)
			a.say(t, answer)
			wantApproved(t, done, approved)
			a.say(t, answer) // as one that was accepted twice
		}

		q := request("late") // without an answer at first
		q.Deadline = time.Now().Add(time.Second)
		done := r.askWith(t.Context(), q)
		a.asked(t)
		wantError(t, done, approval.Expired, "")
		a.say(t, `{"jsonrpc":"2.0","result":true,"id":"late"}`)

		var all []<-chan verdict // answers come in another order, and go where they belong
		for i := range 4 {
			all = append(all, r.ask(t, fmt.Sprint(i)))
			a.asked(t)
		}
		for _, i := range []int{2, 0, 3, 1} {
			a.say(t, fmt.Sprintf(`{"jsonrpc":"2.0","result":%t,"id":"%d"}`, i%2 == 0, i))
		}
		for i, done := range all {
			wantApproved(t, done, i%2 == 0)
		}

		done = r.ask(t, "gone")
		a.asked(t)
		a.wantSilence(t) // no notification has come: it would not be understood
		a.Close()
		wantError(t, done, approval.Lost, "Approval channel disconnected")
		if r.Connected() {
			t.Error("the channel is connected")
		}
		wantError(t, r.ask(t, "0"), approval.NoApprover, "Approval channel not connected")
	})
}

// TestResults: only true approves and only false refuses. After any other result the
// request stays pending.
func TestResults(t *testing.T) {
	virtual(t, nil, func(t *testing.T, r *rig) {
		a := r.connect(t, "dovetail.approval.v1")
		for i, result := range []string{
			`"true"`, `"false"`, `"yes"`, `"no"`, `"approve"`, `"accept"`, `"ok"`, `""`, `"1"`, `1`, `0`, `-1`, `1.0`, `1e0`, `2`,
			`null`, `{}`, `[]`, `[true]`, `{"approved":true}`, `{"result":true}`, `{"approved":"true"}`, `[[true]]`, `"\u0074rue"`, `"TRUE"`,
			`"True"`, `[1]`, `{"":true}`, `[null]`, `123456789012345678901234567890`,
		} {
			id := fmt.Sprint(i)
			done := r.ask(t, id)
			a.asked(t)
			a.say(t, `{"jsonrpc":"2.0","result":`+result+`,"id":"`+id+`"}`)
			wantPending(t, done)
			if told := a.asked(t); told.Method != "refused" || told.Params.ID != id || told.Params.Reason == "" {
				t.Errorf("%s: the approver is told %+v", result, told)
			}
			a.say(t, fmt.Sprintf(`{"jsonrpc":"2.0","result":%t,"id":"%s"}`, i%2 == 0, id))
			wantApproved(t, done, i%2 == 0)
		}
	})
}

// TestMalformedFrames: a malformed frame changes nothing, and later answers count.
func TestMalformedFrames(t *testing.T) {
	virtual(t, nil, func(t *testing.T, r *rig) {
		a := r.connect(t)
		done := r.ask(t, "1")
		a.asked(t)
		for _, frame := range []string{
			``, ` `, `x`, `{`, `true`, `[]`, `null`, `"1"`, `{}`, "\x00", "{\"jsonrpc\":\"2.0\",\"result\":true,\"id\":\"1\"",
			`[{"jsonrpc":"2.0","result":true,"id":"1"}]`,
			`{"result":true,"id":"1"}`, `{"jsonrpc":"1.0","result":true,"id":"1"}`, `{"jsonrpc":2.0,"result":true,"id":"1"}`,
			`{"jsonrpc":"2.0","result":true}`, `{"jsonrpc":"2.0","result":true,"id":1}`, `{"jsonrpc":"2.0","result":true,"id":null}`,
			`{"jsonrpc":"2.0","result":true,"id":["1"]}`, `{"jsonrpc":"2.0","id":"1"}`,
			`{"jsonrpc":"2.0","result":true,"error":{"code":1,"message":"x"},"id":"1"}`, `{"jsonrpc":"2.0","error":"x","id":"1"}`,
			`{"jsonrpc":"2.0","result":false,"result":true,"id":"1"}`, `{"jsonrpc":"2.0","result":true,"id":"2","id":"1"}`,
			`{"jsonrpc":"2.0","method":"approve","params":{},"id":"1"}`, `{"jsonrpc":"2.0","method":"approve","result":true,"id":"1"}`,
			`{"jsonrpc":"2.0","result":true,"id":"1"} x`, `{"jsonrpc":"2.0","Result":true,"ID":"1"}`,
			`{"jsonrpc":"2.0","result":true,"id":"unknown"}`, "{\"jsonrpc\":\"2.0\",\"result\":true,\"id\":\"\xff\"}",
			strings.Repeat("[", 100_000),
		} {
			a.say(t, frame)
			wantPending(t, done)
		}
		if err := a.WriteMessage(websocket.BinaryMessage, []byte(`{"jsonrpc":"2.0","result":true,"id":"1"}`)); err != nil {
			t.Fatal(err)
		}
		wantPending(t, done)
		a.say(t, `{"jsonrpc":"2.0","result":true,"id":"1","more":{}}`)
		wantApproved(t, done, true)

		done = r.ask(t, "2")
		a.asked(t)
		a.say(t, `{"jsonrpc":"2.0","error":{"code":-32603,"message":"no screen"},"id":"2"}`)
		wantError(t, done, approval.Failed, "the approver failed: no screen")

		done = r.ask(t, "3")
		a.asked(t)
		a.say(t, `{"jsonrpc":"2.0","result":false,"reason":"no","id":"3"}`)
		if v := <-done; v.answer != (approval.Answer{Reason: "no", By: "channel"}) {
			t.Errorf("the answer is %+v", v)
		}
	})
}

// TestFrameLimit: a frame that is too long ends its connection. A request that is too long
// for a frame fails.
func TestFrameLimit(t *testing.T) {
	virtual(t, nil, func(t *testing.T, r *rig) {
		a := r.connect(t)
		q := request("1")
		q.Arguments = json.RawMessage(`{"a":"` + strings.Repeat("x", 256<<10) + `"}`)
		wantError(t, r.askWith(t.Context(), q), approval.Failed, "")
		long := strings.Repeat(" ", 256<<10) + `{}`
		_ = a.WriteMessage(websocket.TextMessage, []byte(long)) // it may be cut off
		a.wantClose(t, websocket.CloseMessageTooBig, "")
	})
}

// TestSlowFrame: a frame that is slower than the minimum rate ends its connection.
func TestSlowFrame(t *testing.T) {
	virtual(t, nil, func(t *testing.T, r *rig) {
		a := r.connect(t)
		a.mute.Store(true)
		start := time.Now()
		// A masked text frame of 65,535 bytes. RFC 6455, section 5.2.
		_, err := a.NetConn().Write(append([]byte{0x81, 0xfe, 0xff, 0xff, 0, 0, 0, 0}, strings.Repeat(" ", 5000)...))
		for err == nil && r.Connected() && time.Since(start) < time.Minute {
			pass(time.Second)
			_, err = a.NetConn().Write([]byte(" "))
		}
		if took := time.Since(start).Round(time.Second); r.Connected() || took > 12*time.Second {
			t.Errorf("connected after %v: %v", took, r.Connected())
		}
	})
}

// TestSecondApprover: a second approver waits and is refused after 5 s.
func TestSecondApprover(t *testing.T) {
	virtual(t, nil, func(t *testing.T, r *rig) {
		first := r.connect(t)
		start := time.Now()
		second, third := r.connect(t), r.connect(t)
		second.wantClose(t, websocket.ClosePolicyViolation, "Timed out waiting for previous connection to close")
		third.wantClose(t, websocket.ClosePolicyViolation, "Timed out waiting for previous connection to close")
		if took := time.Since(start); took < 5*time.Second || took > 6*time.Second {
			t.Errorf("it was sent away after %v", took)
		}
		done := r.ask(t, "1")
		if first.asked(t).ID != "1" {
			t.Error("the first approver is not asked any more")
		}
		second, third = r.connect(t), r.connect(t)
		first.Close()
		synctest.Wait()
		entered, other := second, third
		select {
		case frame := <-second.frames:
			second.frames <- frame
		case frame := <-third.frames:
			third.frames <- frame
			entered, other = third, second
		case <-time.After(time.Second):
			t.Fatal("nobody has taken the first one's place")
		}
		if entered.asked(t).ID != "1" {
			t.Error("the next approver was not asked what is open")
		}
		other.wantClose(t, websocket.ClosePolicyViolation, "Timed out waiting for previous connection to close")
		entered.say(t, `{"jsonrpc":"2.0","result":true,"id":"1"}`)
		wantApproved(t, done, true)
		if !r.Connected() {
			t.Error("one that was sent away has taken the place of the other")
		}
	})
}

// TestManyApprovers: the number of waiting approvers is limited.
func TestManyApprovers(t *testing.T) {
	virtual(t, nil, func(t *testing.T, r *rig) {
		waiting := 0
		for range 20 {
			a, err := r.open()
			if err == nil {
				waiting++
				defer a.Close()
			} else if err.Error() != "503 Service Unavailable" {
				t.Error(err)
			}
			synctest.Wait()
		}
		if waiting != 9 {
			t.Errorf("%d were let in, want 1 and 8 that wait", waiting)
		}
	})
}

// TestPendingRequestsMoveToNextApprover: requests that are pending when an approver disconnects are sent to the next
// one.
func TestPendingRequestsMoveToNextApprover(t *testing.T) {
	virtual(t, nil, func(t *testing.T, r *rig) {
		a := r.connect(t)
		var all []<-chan verdict
		for i := range 3 {
			all = append(all, r.ask(t, fmt.Sprint(i)))
			a.asked(t)
		}
		r.network.Cut()
		synctest.Wait()
		for _, done := range all {
			wantPending(t, done)
		}
		b := r.connect(t)
		for i, done := range all {
			if again := b.asked(t); again.ID != fmt.Sprint(i) {
				t.Errorf("%s is shown as number %d", again.ID, i)
			}
			b.say(t, fmt.Sprintf(`{"jsonrpc":"2.0","result":%t,"id":"%d"}`, i == 1, i))
			wantApproved(t, done, i == 1)
		}
		done := r.ask(t, "lost")
		b.asked(t)
		b.Close()
		wantError(t, done, approval.Lost, "Approval channel disconnected") // once it has expired
		wantError(t, r.ask(t, "none"), approval.NoApprover, "Approval channel not connected")
	})
}

// TestReconnectTimeout: a request waits for an approver to connect.
func TestReconnectTimeout(t *testing.T) {
	virtual(t, &channel.Options{ReconnectTimeout: time.Minute}, func(t *testing.T, r *rig) {
		start := time.Now()
		wantError(t, r.ask(t, "1"), approval.NoApprover, "Approval channel not connected")
		if took := time.Since(start); took != time.Minute {
			t.Errorf("it waited for %v", took)
		}
		done := r.ask(t, "2")
		pass(30 * time.Second)
		a := r.connect(t)
		a.asked(t)
		pass(time.Minute)
		a.say(t, `{"jsonrpc":"2.0","result":true,"id":"2"}`)
		wantApproved(t, done, true)
	})
}

// TestRequesterGone: the approver gets a notification, and its answer is ignored.
func TestRequesterGone(t *testing.T) {
	virtual(t, nil, func(t *testing.T, r *rig) {
		a := r.connect(t, "dovetail.approval.v1")
		ctx, cancel := context.WithCancel(t.Context())
		done := r.askWith(ctx, request("1"))
		a.asked(t)
		cancel()
		if v := <-done; v.err != context.Canceled {
			t.Errorf("the request ended with %+v", v)
		}
		if told := a.asked(t); told.Method != "withdrawn" || told.Params.ID != "1" {
			t.Errorf("the approver is told %+v", told)
		}
		a.say(t, `{"jsonrpc":"2.0","result":true,"id":"1"}`)
		if told := a.asked(t); told.Method != "refused" || told.Params.ID != "1" {
			t.Errorf("the approver is told %+v", told)
		}
	})
}

// TestStuckApprover: an approver that does not read does not keep a request from ending.
func TestStuckApprover(t *testing.T) {
	virtual(t, nil, func(t *testing.T, r *rig) {
		d := websocket.Dialer{NetDialContext: r.network.DialContext}
		conn, _, err := d.Dial(address, http.Header{"Authorization": {"Bearer " + r.Token()}})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close() // the client does not read
		synctest.Wait()
		for i := range 100 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			if v := <-r.askWith(ctx, request(fmt.Sprint(i))); v.err == nil {
				t.Error("it was approved")
			}
			cancel()
		}
		pass(time.Minute)
		if r.Connected() {
			t.Error("it is still connected")
		}
	})
}

// TestUnseen: an approver cannot answer a request that was not sent to it, and a withdrawn
// request is not sent.
func TestUnseen(t *testing.T) {
	virtual(t, nil, func(t *testing.T, r *rig) {
		d := websocket.Dialer{NetDialContext: r.network.DialContext}
		conn, _, err := d.Dial(address, http.Header{"Authorization": {"Bearer " + r.Token()}})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		synctest.Wait()
		first := r.ask(t, "1") // the server is writing it
		second := r.ask(t, "2")
		ctx, cancel := context.WithCancel(t.Context())
		third := r.askWith(ctx, request("3"))
		if err := conn.WriteMessage(websocket.TextMessage, []byte(`{"jsonrpc":"2.0","result":true,"id":"2"}`)); err != nil {
			t.Fatal(err)
		}
		wantPending(t, second)
		cancel()
		<-third
		fourth := r.ask(t, "4")
		for _, want := range []string{"1", "2", "4"} {
			_, frame, err := conn.ReadMessage()
			if err != nil || !strings.HasSuffix(string(frame), `"id":"`+want+`"}`) {
				t.Errorf("%s is shown (%v), want %s", frame, err, want)
			}
			if err := conn.WriteMessage(websocket.TextMessage, []byte(`{"jsonrpc":"2.0","result":true,"id":"`+want+`"}`)); err != nil {
				t.Fatal(err)
			}
		}
		for _, done := range []<-chan verdict{first, second, fourth} {
			wantApproved(t, done, true)
		}
	})
}

// TestSilentApprover: an approver that answers no ping is disconnected.
func TestSilentApprover(t *testing.T) {
	virtual(t, nil, func(t *testing.T, r *rig) {
		a := r.connect(t)
		pass(10 * time.Minute)
		if !r.Connected() {
			t.Fatal("one that answers pings was disconnected")
		}
		a.mute.Store(true)
		pass(time.Minute)
		if r.Connected() {
			t.Error("one that is silent is still connected")
		}
	})
}

// TestToken: an approver with the token in a supported place is accepted.
func TestToken(t *testing.T) {
	virtual(t, nil, func(t *testing.T, r *rig) {
		token := r.Token()
		for name, test := range map[string]struct {
			query  string
			header http.Header
			status int
		}{
			"none":              {"", nil, 401},
			"bearer":            {"", http.Header{"Authorization": {"Bearer " + token}}, 101},
			"lower case":        {"", http.Header{"Authorization": {"bearer " + token}}, 101},
			"subprotocol":       {"", http.Header{"Sec-Websocket-Protocol": {"dovetail.approval.v1, dovetail.token." + token}}, 101},
			"subprotocol alone": {"", http.Header{"Sec-Websocket-Protocol": {"dovetail.token." + token}}, 101},
			"query":             {"?token=" + token, nil, 401},
			"access_token":      {"?access_token=" + token, nil, 401},
			"cookie":            {"", http.Header{"Cookie": {"token=" + token}}, 401},
			"basic":             {"", http.Header{"Authorization": {"Basic " + token}}, 401},
			"bare":              {"", http.Header{"Authorization": {token}}, 401},
			"prefix":            {"", http.Header{"Authorization": {"Bearer " + token[:len(token)-1]}}, 401},
			"longer":            {"", http.Header{"Authorization": {"Bearer " + token + "x"}}, 401},
			"case":              {"", http.Header{"Authorization": {"Bearer " + strings.ToLower(token)}}, 401},
			"empty":             {"", http.Header{"Authorization": {"Bearer "}}, 401},
			"wrong protocol":    {"", http.Header{"Sec-Websocket-Protocol": {"dovetail.approval.v1, " + token}}, 401},
		} {
			d := websocket.Dialer{NetDialContext: r.network.DialContext}
			conn, resp, err := d.Dial(address+test.query, test.header)
			if resp == nil || resp.StatusCode != test.status {
				t.Errorf("%s: %v (%v), want %d", name, resp, err, test.status)
			}
			if resp != nil && strings.Contains(fmt.Sprint(resp.Header), token) {
				t.Errorf("%s: the token is sent back", name)
			}
			if conn != nil {
				conn.Close()
			}
			synctest.Wait()
		}
		a := r.connect(t)
		waits := r.connect(t) // with the token that was right
		if err := r.SetToken("another-token-1234"); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		defer waits.wantClose(t, websocket.ClosePolicyViolation, "the token has changed")
		a.wantClose(t, websocket.ClosePolicyViolation, "the token has changed")
		if took := time.Since(start); took > time.Second {
			t.Errorf("it took %v", took)
		}
		for _, bad := range []string{"", "short", "with space 123456789", "with,comma,123456789", "täxt-täxt-täxt-täxt"} {
			if r.SetToken(bad) == nil {
				t.Errorf("%q was taken for a token", bad)
			}
		}
	})
	for _, bad := range []*channel.Options{{Token: "x"}, {Hosts: []string{"http://x"}}, {Origins: []string{"*"}}} {
		if _, err := channel.New(bad); err == nil {
			t.Errorf("%+v: no error", bad)
		}
	}
}

// TestForeignRequests: foreign hosts and origins, and requests without a handshake, are refused
// before the token is checked.
func TestForeignRequests(t *testing.T) {
	c, err := channel.New(&channel.Options{InsecureNoToken: true, Hosts: []string{"gate.example"}, Origins: []string{"https://app.example"}, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, test := range []struct {
		method, host, origin string
		upgrade              bool
		status               int
	}{
		{"GET", "localhost", "", false, 426},
		{"POST", "localhost", "", false, 405},
		{"GET", "evil.example", "", true, 403},
		{"GET", "127.evil.example", "", true, 403},
		{"GET", "localhost.evil.example", "", true, 403},
		{"GET", "localhost", "https://evil.example", true, 403},
		{"GET", "localhost", "null", true, 403},
		{"GET", "localhost", "https://app.example.evil.example", true, 403},
		{"GET", "localhost", "http://app.example", true, 403},
		{"GET", "localhost", "https://app.example", true, 500}, // only the recorder cannot be a socket
		{"GET", "localhost", "http://localhost:8900", true, 500},
		{"GET", "gate.example", "", true, 500},
	} {
		q := httptest.NewRequest(test.method, "http://"+test.host+"/approval", nil)
		q = q.WithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}))
		if test.origin != "" {
			q.Header.Set("Origin", test.origin)
		}
		if test.upgrade {
			q.Header.Set("Connection", "Upgrade")
			q.Header.Set("Upgrade", "websocket")
			q.Header.Set("Sec-WebSocket-Version", "13")
			q.Header.Set("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
		}
		w := httptest.NewRecorder()
		c.ServeHTTP(w, q)
		if w.Code != test.status {
			t.Errorf("%+v: %d %s", test, w.Code, w.Body)
		}
	}
}

// TestClose: Close fails pending requests, disconnects the approver and refuses new ones.
func TestClose(t *testing.T) {
	virtual(t, nil, func(t *testing.T, r *rig) {
		a := r.connect(t)
		waits := r.connect(t)
		done := r.ask(t, "1")
		a.asked(t)
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		wantError(t, done, approval.NoApprover, "Approval channel closed")
		a.wantClose(t, websocket.CloseGoingAway, "the channel is closing")
		waits.wantClose(t, websocket.ClosePolicyViolation, "the channel is closing")
		wantError(t, r.ask(t, "2"), approval.NoApprover, "Approval channel closed")
		if _, err := r.open(); err == nil {
			t.Error("an approver was let in")
		}
	})
}

// stay connects an approver that never closes, and sends pings until the test ends it.
func (r *rig) stay(t *testing.T) (conn *websocket.Conn, leave func()) {
	t.Helper()
	d := websocket.Dialer{NetDialContext: r.network.DialContext}
	conn, _, err := d.Dial(address, http.Header{"Authorization": {"Bearer " + r.Token()}})
	if err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go io.Copy(io.Discard, conn.NetConn())
	go func() {
		defer close(stopped)
		for {
			select {
			case <-time.After(300 * time.Millisecond):
				_ = conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(time.Second))
			case <-stop:
				return
			}
		}
	}()
	synctest.Wait()
	return conn, func() {
		close(stop)
		<-stopped
		conn.Close()
	}
}

// TestTokenChange: after the token has changed, an approver approves nothing,
// and its requests go to the next one.
func TestTokenChange(t *testing.T) {
	virtual(t, nil, func(t *testing.T, r *rig) {
		stubborn, leave := r.stay(t)
		defer leave()
		done := r.ask(t, "1")
		if err := r.SetToken("another-token-1234"); err != nil {
			t.Fatal(err)
		}
		if r.Connected() {
			t.Error("one that was sent away is the approver")
		}
		if err := stubborn.WriteMessage(websocket.TextMessage, []byte(`{"jsonrpc":"2.0","result":true,"id":"1"}`)); err != nil {
			t.Fatal(err)
		}
		wantPending(t, done)
		a := r.connect(t) // while the other stays
		pass(2 * time.Second)
		if a.asked(t).ID != "1" {
			t.Error("the next approver is not asked")
		}
		a.say(t, `{"jsonrpc":"2.0","result":false,"id":"1"}`)
		wantApproved(t, done, false)
	})
}

// TestCloseIsBounded: approvers that stay, wait or do not read delay Close only
// briefly.
func TestCloseIsBounded(t *testing.T) {
	virtual(t, nil, func(t *testing.T, r *rig) {
		for range 2 {
			_, leave := r.stay(t)
			defer leave()
		}
		wantClosedSoon(t, r.Close)
	})
	virtual(t, nil, func(t *testing.T, r *rig) {
		d := websocket.Dialer{NetDialContext: r.network.DialContext}
		conn, _, err := d.Dial(address, http.Header{"Authorization": {"Bearer " + r.Token()}})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		synctest.Wait()
		r.ask(t, "1") // the client does not read
		wantClosedSoon(t, r.Close)
	})
}

// TestRefusedApproversAreCounted: refused approvers count as waiting until they are
// disconnected.
func TestRefusedApproversAreCounted(t *testing.T) {
	virtual(t, &channel.Options{HandoverTimeout: time.Millisecond}, func(t *testing.T, r *rig) {
		for range 9 {
			_, leave := r.stay(t)
			defer leave()
		}
		pass(100 * time.Millisecond) // all but the first have been refused
		if _, err := r.open(); err == nil {
			t.Error("more than 8 are being sent away")
		}
		pass(2 * time.Second)
		a, err := r.open()
		if err != nil {
			t.Fatal("those that were sent away stay:", err)
		}
		a.Close()
	})
}

// TestClientCloseIsBounded: a server that does not close delays Close only briefly.
func TestClientCloseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := memnet.New()
		upgrader := websocket.Upgrader{}
		stop := make(chan struct{})
		server := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, q *http.Request) {
			conn, err := upgrader.Upgrade(rw, q, nil)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			go io.Copy(io.Discard, conn.NetConn())
			for {
				select {
				case <-time.After(300 * time.Millisecond):
					_ = conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(time.Second))
				case <-stop:
					return
				}
			}
		})}
		served := make(chan error)
		go func() { served <- server.Serve(w) }()
		c, err := channel.Dial(t.Context(), address, func(context.Context, *approval.Prompt) {}, &channel.ClientOptions{
			Logger: quiet(), HTTPClient: &http.Client{Transport: &http.Transport{DialContext: w.DialContext}},
		})
		if err != nil {
			t.Fatal(err)
		}
		wantClosedSoon(t, c.Close)
		close(stop)
		server.Close()
		<-served
		w.Cut()
	})
}

func wantClosedSoon(t *testing.T, end func() error) {
	t.Helper()
	closed := make(chan error, 1)
	start := time.Now()
	go func() { closed <- end() }()
	select {
	case err := <-closed:
		if took := time.Since(start); err != nil || took > 3*time.Second {
			t.Errorf("closed after %v: %v", took, err)
		}
	case <-time.After(time.Minute):
		t.Error("it is not closed after a minute")
	}
}

// TestDialRegisters: after Dial, requests are sent to the approver.
func TestDialRegisters(t *testing.T) {
	c, err := channel.New(&channel.Options{Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(c)
	defer web.Close()
	defer c.Close()
	for range 200 {
		person, err := channel.Dial(t.Context(), web.URL, func(ctx context.Context, p *approval.Prompt) { _ = p.Accept(ctx) },
			&channel.ClientOptions{Token: c.Token(), Logger: quiet(), Once: true})
		if err != nil {
			t.Fatal(err)
		}
		q := &approval.Request{ID: "1", Target: approval.Target{Tool: "t"}, Arguments: json.RawMessage(`{}`), Deadline: time.Now().Add(time.Minute)}
		if a, err := c.Approve(t.Context(), q); err != nil || !a.Approved {
			t.Fatalf("asked right after Dial: %+v, %v", a, err)
		}
		person.Close()
	}
}

// TestDialOfAnotherServer: a server that selects the subprotocol and sends something else
// first is refused.
func TestDialOfAnotherServer(t *testing.T) {
	for _, frame := range []string{`{"jsonrpc":"2.0","method":"withdrawn","params":{"id":"1"}}`, `x`} {
		synctest.Test(t, func(t *testing.T) {
			w := memnet.New()
			upgrader := websocket.Upgrader{Subprotocols: []string{"dovetail.approval.v1"}}
			server := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, q *http.Request) {
				conn, err := upgrader.Upgrade(rw, q, nil)
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				_ = conn.WriteMessage(websocket.TextMessage, []byte(frame))
				_, _, _ = conn.ReadMessage() // until the client disconnects
			})}
			served := make(chan error)
			go func() { served <- server.Serve(w) }()
			_, err := channel.Dial(t.Context(), address, func(context.Context, *approval.Prompt) {}, &channel.ClientOptions{
				Logger: quiet(), HTTPClient: &http.Client{Transport: &http.Transport{DialContext: w.DialContext}},
			})
			if err == nil || !strings.Contains(err.Error(), "not registered") {
				t.Errorf("%s: %v", frame, err)
			}
			server.Close()
			<-served
			w.Cut()
		})
	}
}

// clientOptions returns options for the rig's network.
func (r *rig) clientOptions() *channel.ClientOptions {
	return &channel.ClientOptions{
		Token: r.Token(), Logger: quiet(),
		HTTPClient: &http.Client{Transport: &http.Transport{DialContext: r.network.DialContext}},
	}
}

// dial connects a client that the test closes.
func (r *rig) dial(t *testing.T, handler approval.Handler, opts *channel.ClientOptions) *channel.Client {
	t.Helper()
	if opts == nil {
		opts = r.clientOptions()
	}
	c, err := channel.Dial(t.Context(), address, handler, opts)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	return c
}

// TestClient: the handler gets the request byte for byte.
func TestClient(t *testing.T) {
	virtual(t, nil, func(t *testing.T, r *rig) {
		var shown *approval.Request
		c := r.dial(t, func(ctx context.Context, p *approval.Prompt) {
			shown = p.Request
			if strings.Contains(string(p.Arguments), "no") {
				_ = p.Reject(ctx, "I would rather \u202e not")
				return
			}
			_ = p.Accept(ctx)
		}, nil)
		defer c.Close()
		q := request("1")
		q.Arguments = json.RawMessage("{ \"n\" : 12345678901234567890.0,\n\"s\":\"\\u0041\u2028<\" }")
		q.Launch, q.ToolDigest, q.Caller = "cafe", "sha256:beef", "anna"
		q.Created, q.Deadline = q.Created.Truncate(time.Millisecond), q.Deadline.Truncate(time.Millisecond)
		wantApproved(t, r.askWith(t.Context(), q), true)
		if shown.Digest() != q.Digest() || string(shown.Arguments) != string(q.Arguments) || shown.Target != q.Target {
			t.Errorf("shown was %+v, want %+v", shown, q)
		}
		q = request("2")
		q.Arguments = json.RawMessage(`{"a":"no"}`)
		if v := <-r.askWith(t.Context(), q); v.answer != (approval.Answer{Reason: "I would rather \u202e not", By: "channel"}) || v.err != nil {
			t.Errorf("the answer is %+v", v)
		}
	})
}

// TestClientConcurrency: a slow handler does not delay others.
func TestClientConcurrency(t *testing.T) {
	virtual(t, nil, func(t *testing.T, r *rig) {
		release := make(chan struct{})
		c := r.dial(t, func(ctx context.Context, p *approval.Prompt) {
			if p.ID == "stuck" {
				<-release
			}
			_ = p.Accept(ctx)
		}, nil)
		defer c.Close()
		stuck := r.ask(t, "stuck")
		for i := range 100 {
			wantApproved(t, r.ask(t, fmt.Sprint(i)), true)
		}
		wantPending(t, stuck)
		close(release)
		wantApproved(t, stuck, true)
	})
}

// TestClientDeferred: the answer may come after the handler, once, and before the request
// ends.
func TestClientDeferred(t *testing.T) {
	virtual(t, nil, func(t *testing.T, r *rig) {
		prompts := make(chan *approval.Prompt, 10)
		contexts := make(chan context.Context, 10)
		c := r.dial(t, func(ctx context.Context, p *approval.Prompt) {
			prompts <- p
			contexts <- ctx
		}, nil)
		defer c.Close()
		done := r.ask(t, "1")
		p := <-prompts
		pass(time.Minute)
		if _, ok := p.Answer(); ok {
			t.Error("it has been decided")
		}
		if err := p.Accept(t.Context()); err != nil {
			t.Error(err)
		}
		<-p.Decided()
		if err := p.Reject(t.Context(), ""); !errors.Is(err, approval.ErrDecided) {
			t.Errorf("the second answer's error is %v", err)
		}
		wantApproved(t, done, true)
		<-(<-contexts).Done() // it has been answered

		ctx, cancel := context.WithCancel(t.Context()) // the server withdraws it
		done = r.askWith(ctx, request("2"))
		p = <-prompts
		cancel()
		<-(<-contexts).Done()
		synctest.Wait()
		if err := p.Accept(t.Context()); !errors.Is(err, approval.ErrWithdrawn) {
			t.Errorf("the answer's error is %v", err)
		}
		<-done

		q := request("3") // it expires
		q.Deadline = time.Now().Add(time.Second).Truncate(time.Millisecond)
		done = r.askWith(t.Context(), q)
		p = <-prompts
		wantError(t, done, approval.Expired, "")
		synctest.Wait()
		if err := p.Accept(t.Context()); !errors.Is(err, approval.ErrWithdrawn) {
			t.Errorf("the answer's error is %v", err)
		}
		<-contexts

		done = r.ask(t, "4") // the connection ends, and another brings it again
		p = <-prompts
		<-contexts
		r.network.Cut()
		synctest.Wait()
		if err := p.Accept(t.Context()); !errors.Is(err, approval.ErrWithdrawn) {
			t.Errorf("the answer's error is %v", err)
		}
		if _, decided := p.Answer(); decided {
			t.Error("an answer that was not taken is there")
		}
		again := <-prompts
		if again.ID != "4" || !c.Connected() {
			t.Errorf("the next connection brings %s", again.ID)
		}
		wantPending(t, done)
		if err := again.Accept(t.Context()); err != nil {
			t.Error(err)
		}
		wantApproved(t, done, true)
	})
}

// TestClientPanic: a handler that panics rejects the request.
func TestClientPanic(t *testing.T) {
	virtual(t, nil, func(t *testing.T, r *rig) {
		c := r.dial(t, func(ctx context.Context, p *approval.Prompt) {
			if p.ID == "late" {
				_ = p.Accept(ctx)
			}
			panic("handler")
		}, nil)
		defer c.Close()
		wantApproved(t, r.ask(t, "1"), false)
		wantApproved(t, r.ask(t, "late"), true)
	})
}

// TestClientLimit: one request too many fails immediately.
func TestClientLimit(t *testing.T) {
	virtual(t, nil, func(t *testing.T, r *rig) {
		opts := r.clientOptions()
		opts.MaxHandlers = 1
		var first *approval.Prompt
		c := r.dial(t, func(_ context.Context, p *approval.Prompt) { first = p }, opts)
		defer c.Close()
		done := r.ask(t, "1")
		wantError(t, r.ask(t, "2"), approval.Failed, "the approver failed: too many requests are open")
		if err := first.Accept(t.Context()); err != nil {
			t.Error(err)
		}
		wantApproved(t, done, true)
		done = r.ask(t, "3")
		if err := first.Accept(t.Context()); err != nil {
			t.Error(err)
		}
		wantApproved(t, done, true)
	})
}

// TestClientReconnects: the client reconnects until it is closed.
func TestClientReconnects(t *testing.T) {
	virtual(t, nil, func(t *testing.T, r *rig) {
		accept := func(ctx context.Context, p *approval.Prompt) { _ = p.Accept(ctx) }
		c := r.dial(t, accept, nil)
		for i := range 5 {
			wantApproved(t, r.ask(t, fmt.Sprint(i)), true)
			r.network.Cut()
			synctest.Wait()
			if c.Connected() {
				t.Error("it is connected at once")
			}
			pass(time.Minute)
			if !c.Connected() {
				t.Fatalf("it has not connected again: %v", c.Err())
			}
		}
		opts := r.clientOptions()
		opts.Once = true
		if err := errors.Join(c.Close(), c.Close()); err != nil || c.Connected() || c.Err() != nil {
			t.Errorf("closed, it is %t, %v, %v", c.Connected(), c.Err(), err)
		}
		<-c.Done()
		synctest.Wait()
		once := r.dial(t, accept, opts)
		wantApproved(t, r.ask(t, "once"), true)
		r.network.Cut()
		<-once.Done()
		if once.Err() == nil || once.Close() != nil {
			t.Errorf("it ended with %v", once.Err())
		}
	})
}

// TestClientClose: pending requests are not answered.
func TestClientClose(t *testing.T) {
	virtual(t, nil, func(t *testing.T, r *rig) {
		ended := false
		c := r.dial(t, func(ctx context.Context, _ *approval.Prompt) {
			<-ctx.Done()
			pass(time.Second)
			ended = true
		}, nil)
		done := r.ask(t, "1")
		if err := c.Close(); err != nil || !ended {
			t.Errorf("Close has not waited: %v", err)
		}
		wantPending(t, done)
		wantError(t, done, approval.Lost, "")
	})
}

// TestDialFails says why.
func TestDialFails(t *testing.T) {
	virtual(t, nil, func(t *testing.T, r *rig) {
		for url, want := range map[string]string{
			"ftp://localhost": "scheme", "ws://": "host", "ws://a:b@localhost": "user", "%": "URL", "ws://localhost\x00": "URL",
		} {
			if _, err := channel.Dial(t.Context(), url, nil, r.clientOptions()); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v", url, err)
			}
		}
		opts := r.clientOptions()
		opts.Token = "wrong"
		if _, err := channel.Dial(t.Context(), address, nil, opts); err == nil || !strings.Contains(err.Error(), "401") {
			t.Errorf("a wrong token: %v", err)
		}
		opts = r.clientOptions()
		opts.HTTPClient = &http.Client{Transport: http.NewFileTransport(http.Dir("."))}
		if _, err := channel.Dial(t.Context(), address, nil, opts); err == nil {
			t.Error("an unknown transport was taken")
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(errors.New("not now"))
		if _, err := channel.Dial(ctx, address, nil, r.clientOptions()); err == nil || !strings.Contains(err.Error(), "not now") {
			t.Errorf("without time: %v", err)
		}
	})
}

// TestOriginalServer replays the traffic of an older server without digests.
func TestOriginalServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var shown []string
		c, socket, stop := byHand(t, func(ctx context.Context, p *approval.Prompt) {
			mu.Lock()
			shown = append(shown, p.String())
			mu.Unlock()
			_ = p.Accept(ctx)
		})
		for _, step := range []struct{ frame, answer string }{
			{`{"jsonrpc": "2.0", "method": "approve", "params": {"server_name": "server", "tool_name": "tool", "tool_args": {"name": "test"}}, "id": "6f9619ff"}`, `{"jsonrpc":"2.0","result":true,"id":"6f9619ff"}`},
			{`{"jsonrpc":"2.0","method":"approve","params":{"server_name":"s","tool_name":"t","tool_args":{}},"id":7}`, `{"jsonrpc":"2.0","result":true,"id":7}`},
			{`{"jsonrpc":"2.0","method":"approve","params":{"server_name":"s","tool_name":"t","tool_args":[]},"id":"a"}`, `{"jsonrpc":"2.0","error":{"code":-32603,"message":"tool_args must be an object, not an array"},"id":"a"}`},
			{`{"jsonrpc":"2.0","method":"approve","params":{"server_name":"s","tool_name":"t","tool_args":{},"args_digest":"00"},"id":"b"}`, `{"jsonrpc":"2.0","error":{"code":-32603,"message":"args_digest does not match tool_args"},"id":"b"}`},
			{`{"jsonrpc":"2.0","method":"approve","params":{"server_name":"s","tool_name":"t","tool_args":{},"digest":"00"},"id":"c"}`, `{"jsonrpc":"2.0","error":{"code":-32603,"message":"digest does not match the request"},"id":"c"}`},
			{`{"jsonrpc":"2.0","method":"approve","params":{"server_name":"s","tool_name":"t","tool_args":{},"deadline":"soon"},"id":"d"}`, `{"jsonrpc":"2.0","error":{"code":-32603,"message":"deadline must be a time (RFC 3339)"},"id":"d"}`},
			{`{"jsonrpc":"2.0","method":"execute","params":{},"id":"e"}`, `{"jsonrpc":"2.0","error":{"code":-32603,"message":"there is no method \"execute\""},"id":"e"}`},
			{`nonsense`, ""}, {`{"jsonrpc":"2.0","method":"withdrawn","params":{"id":"nobody"}}`, ""}, {`{"jsonrpc":"2.0","method":"refused","params":{"id":"nobody"}}`, ""},
		} {
			if err := socket.WriteMessage(websocket.TextMessage, []byte(step.frame)); err != nil {
				t.Fatal(err)
			}
			if step.answer == "" {
				continue
			}
			_, answer, err := socket.ReadMessage()
			if err != nil || string(answer) != step.answer {
				t.Errorf("%s\nis answered with %s (%v), want\n%s", step.frame, answer, err, step.answer)
			}
		}
		synctest.Wait()
		if fmt.Sprint(shown) != "[server.tool(name='test') s.t()]" {
			t.Errorf("shown was %q", shown)
		}
		go c.Close()
		_, _, err := socket.ReadMessage()
		if !websocket.IsCloseError(err, websocket.CloseNormalClosure) {
			t.Errorf("the connection ended with %v", err)
		}
		stop()
	})
}

// byHand connects a client to a server that has no more than a socket. stop ends both.
func byHand(t *testing.T, handler approval.Handler) (c *channel.Client, socket *websocket.Conn, stop func()) {
	t.Helper()
	w := memnet.New()
	sockets := make(chan *websocket.Conn, 1)
	upgrader := websocket.Upgrader{}
	server := &http.Server{Handler: http.HandlerFunc(func(rw http.ResponseWriter, q *http.Request) {
		conn, err := upgrader.Upgrade(rw, q, nil)
		if err != nil {
			t.Error(err)
			return
		}
		sockets <- conn
	})}
	served := make(chan error)
	go func() { served <- server.Serve(w) }()
	c, err := channel.Dial(t.Context(), address, handler, &channel.ClientOptions{
		Logger: quiet(), HTTPClient: &http.Client{Transport: &http.Transport{DialContext: w.DialContext}},
	})
	if err != nil {
		t.Fatal(err)
	}
	socket = <-sockets
	return c, socket, func() {
		socket.Close()
		<-c.Done()
		server.Close()
		<-served
	}
}

// TestClockOfTheApprover: a wrong clock on either side does not change how long a request is
// open.
func TestClockOfTheApprover(t *testing.T) {
	for name, skew := range map[string]time.Duration{"fast": -time.Hour, "slow": time.Hour, "right": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const expiry = 5 * time.Minute
				began := time.Now()
				open := make(chan time.Duration, 1)
				c, socket, stop := byHand(t, func(ctx context.Context, _ *approval.Prompt) {
					<-ctx.Done()
					open <- time.Since(began)
				})
				created := began.Add(skew)
				frame := fmt.Sprintf(`{"jsonrpc":"2.0","method":"approve","params":{"server_name":"s","tool_name":"t","tool_args":{},"created":%q,"deadline":%q},"id":1}`,
					created.UTC().Format(time.RFC3339Nano), created.Add(expiry).UTC().Format(time.RFC3339Nano))
				if err := socket.WriteMessage(websocket.TextMessage, []byte(frame)); err != nil {
					t.Fatal(err)
				}
				go func() { // answers pings
					for {
						if _, _, err := socket.ReadMessage(); err != nil {
							return
						}
					}
				}()
				if got := <-open; got != expiry {
					t.Errorf("the request is open for %v, want %v", got, expiry)
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
				stop()
			})
		})
	}
}
