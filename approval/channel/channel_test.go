package channel_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"github.com/dovetail-go/dovetail/approval"
	"github.com/dovetail-go/dovetail/approval/channel"
)

// TestOriginalTranscript is the traffic of a program written for the channel that this one
// takes the place of: it knows no subprotocol, and reads three members of the params.
func TestOriginalTranscript(t *testing.T) {
	virtual(t, &channel.Options{Open: true, FailOnDisconnect: true}, func(t *testing.T, r *rig) {
		wantError(t, r.ask(t, "0"), approval.NoApprover, "Approval channel not connected")
		d := websocket.Dialer{NetDialContext: r.wire.dial}
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

		q := request("late") // nobody answers, and then somebody does
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

// TestResults: only the JSON literal true approves, only false refuses, and after anything
// else the request waits.
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

// TestMalformedFrames: what is no answer changes nothing, and answers after it count.
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

// TestFrameLimit: a frame that is too long ends its connection; a request that is too long
// for one is not asked.
func TestFrameLimit(t *testing.T) {
	virtual(t, nil, func(t *testing.T, r *rig) {
		a := r.connect(t)
		q := request("1")
		q.Arguments = json.RawMessage(`{"a":"` + strings.Repeat("x", channel.MaxFrame) + `"}`)
		wantError(t, r.askWith(t.Context(), q), approval.Failed, "")
		long := strings.Repeat(" ", channel.MaxFrame) + `{}`
		_ = a.WriteMessage(websocket.TextMessage, []byte(long)) // it may be cut off
		a.wantClose(t, websocket.CloseMessageTooBig, "")
	})
}

// TestSecondApprover: it waits for the first to go, and is sent away after 5 s.
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

// TestManyApprovers: so many may wait, and no more.
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

// TestReoffer: what is open when an approver goes is put before the next one, and never
// approved in between.
func TestReoffer(t *testing.T) {
	virtual(t, nil, func(t *testing.T, r *rig) {
		a := r.connect(t)
		var all []<-chan verdict
		for i := range 3 {
			all = append(all, r.ask(t, fmt.Sprint(i)))
			a.asked(t)
		}
		r.wire.cut()
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

// TestPatience: a request can wait for an approver to come.
func TestPatience(t *testing.T) {
	virtual(t, &channel.Options{Patience: time.Minute}, func(t *testing.T, r *rig) {
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

// TestRequesterGone: the approver is told, and the answer counts for nothing.
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

// TestStuckApprover: an approver that takes nothing keeps no request from ending.
func TestStuckApprover(t *testing.T) {
	virtual(t, nil, func(t *testing.T, r *rig) {
		d := websocket.Dialer{NetDialContext: r.wire.dial}
		conn, _, err := d.Dial(address, http.Header{"Authorization": {"Bearer " + r.Token()}})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close() // nobody reads it
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

// TestUnseen: what an approver has not been shown it cannot answer, and what is withdrawn
// before is not shown.
func TestUnseen(t *testing.T) {
	virtual(t, nil, func(t *testing.T, r *rig) {
		d := websocket.Dialer{NetDialContext: r.wire.dial}
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

// TestSilentApprover: one that answers no ping has gone.
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

// TestToken: who has it, in the right place, is let in.
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
			d := websocket.Dialer{NetDialContext: r.wire.dial}
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

// TestEdge: strange hosts and origins, and what is no WebSocket, are refused before the
// token is looked at.
func TestEdge(t *testing.T) {
	c, err := channel.New(&channel.Options{Open: true, Hosts: []string{"gate.example"}, Origins: []string{"https://app.example"}, Logger: quiet()})
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

// TestClose: it fails what is open, sends the approver away, and lets nobody in.
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
