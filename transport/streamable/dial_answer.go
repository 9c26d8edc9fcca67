package streamable

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/dovetail-go/dovetail/internal/buffer"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/webclient"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// exchange sends a call and waits for its answer. kept says that the request goes
// on after that and will be done by itself.
func (p *post) exchange() (resp *jsonrpc.Response, kept bool, err error) {
	res, err := p.send()
	if err != nil {
		return nil, false, err
	}
	if !isSuccess(res) {
		resp, err = p.refused(res)
		return resp, false, err
	}
	if p.opensSession() {
		if err := p.openSession(res); err != nil {
			res.Body.Close()
			return nil, false, p.failed(jsonrpc.MaybeExecuted, err)
		}
	}
	switch kind := mediaType(res); kind {
	case typeJSON[0], "":
		resp, err = p.readAnswer(res)
	case typeEvents[0]:
		resp, kept, err = p.follow(res.Body)
	default:
		webclient.Drain(res.Body, p.cancel)
		res.Body.Close()
		return nil, false, p.failed(jsonrpc.MaybeExecuted, fmt.Errorf(
			"the answer must be %s or %s, not %s", typeJSON[0], typeEvents[0], jsonscan.Quote(kind)))
	}
	if err != nil {
		return nil, kept, err
	}
	resp, err = p.outcome(resp)
	return resp, kept, err
}

func isSuccess(res *http.Response) bool { return res.StatusCode/100 == 2 }

// mediaType is the type of an answer, without parameters.
func mediaType(res *http.Response) string {
	kind, _, _ := strings.Cut(res.Header.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(kind))
}

// outcome turns an error of the server into one of Go.
func (p *post) outcome(resp *jsonrpc.Response) (*jsonrpc.Response, error) {
	switch {
	case resp.Error == nil:
		return resp, nil
	case resp.Error.Code == jsonrpc.Busy:
		return nil, p.failed(jsonrpc.Rejected, resp.Error)
	}
	return nil, resp.Error
}

// refused makes an error of an answer that is not a success.
func (p *post) refused(res *http.Response) (*jsonrpc.Response, error) {
	defer res.Body.Close()
	body, err := readBody(res, nil, p.conn.dialer.opts.MaxMessage)
	if err == nil {
		if resp := p.errorIn(body); resp != nil && p.isSpoken(res, resp) {
			p.conn.trace(body)
			return p.outcome(resp)
		}
	}
	if p.isLost(res) {
		p.conn.lose()
		return nil, p.failed(jsonrpc.NotSent, fmt.Errorf("%w: the server does not know the session any more", jsonrpc.ErrClosed))
	}
	status := webclient.NewStatusError(res, body)
	return nil, p.failed(webclient.DeliveryOf(status), status)
}

// isLost says whether an answer tells that a session is gone: MCP 2025-11-25,
// basic/transports, "Session Management".
func (p *post) isLost(res *http.Response) bool {
	return res.StatusCode == http.StatusNotFound && p.header[headerSession] != nil
}

// isSpoken says whether an error of JSON-RPC that came with the status of a failure
// is what the server has to say to the message, and not about who asks, or from
// something on the way that cannot read it.
func (p *post) isSpoken(res *http.Response, resp *jsonrpc.Response) bool {
	switch named := !resp.ID.IsZero(); {
	case webclient.IsAccess(res.StatusCode):
		return false
	case p.isLost(res):
		return named && resp.Error.Code == jsonrpc.MethodNotFound
	case res.StatusCode >= http.StatusInternalServerError:
		return named
	case p.opensSession():
		return named // another transport does not answer either
	}
	return true
}

// opensSession says whether this is the message that a session begins with.
func (p *post) opensSession() bool { return p.method == mcp.MethodInitialize && !p.modern }

// errorIn returns the error that a body is, if it is one that may be about this
// message.
func (p *post) errorIn(body []byte) *jsonrpc.Response {
	msg, err := jsonrpc.Decode(body)
	if err != nil {
		return nil
	}
	resp, ok := msg.(*jsonrpc.Response)
	if !ok || resp.Error == nil || !resp.ID.IsZero() && resp.ID != p.id {
		return nil
	}
	return resp
}

var errNoAnswer = errors.New("the server's answer does not hold the response to the call")

// readAnswer reads an answer that is one JSON text. A large one is on loan: its memory
// comes back when the response is released.
func (p *post) readAnswer(res *http.Response) (*jsonrpc.Response, error) {
	defer res.Body.Close()
	var memory *buffer.Buffer
	var body []byte
	if res.ContentLength >= lentFrom {
		memory = p.conn.memory.Fit(int(min(res.ContentLength, p.conn.dialer.opts.MaxMessage)))
		body = memory.Bytes
	}
	body, err := readBody(res, body, p.conn.dialer.opts.MaxMessage)
	if err != nil {
		if _, ok := err.(*SizeError); !ok {
			err = webclient.NotReached(err)
		}
		return nil, p.broken(err)
	}
	resp, _, err := p.take(body)
	if err == nil && resp == nil {
		err = errNoAnswer
		if only := p.errorIn(body); only != nil { // its sender could not read the id
			return only, nil
		}
	}
	if err != nil {
		return nil, p.failed(jsonrpc.MaybeExecuted, err)
	}
	if memory != nil && !jsonrpc.IsBatch(body) { // of which handlers may keep other messages
		memory.Bytes = body
		resp.Lend(memory.Free)
	}
	return resp, nil
}

const (
	// firstRead is the biggest buffer that is made because a length was announced, and
	// trusted is how many times what has come of that a later one may be.
	firstRead = 64 << 10
	trusted   = 8
	// lentFrom is from how many bytes on an answer is on loan. Smaller ones are not worth
	// a buffer that may not come back.
	lentFrom = 8 << 10
)

// readBody reads a whole body of at most limit bytes into a buffer, or one that is made
// if there is not room for the beginning. The error is a *SizeError or that of the network.
func readBody(res *http.Response, body []byte, limit int64) ([]byte, error) {
	size := int64(512)
	if res.ContentLength >= 0 {
		size = res.ContentLength
	}
	if size > limit {
		return nil, &SizeError{limit}
	}
	if size = min(size, firstRead); size > int64(cap(body)) {
		body = make([]byte, 0, size)
	}
	for {
		if len(body) == cap(body) {
			have := int64(len(body))
			more := max(have, min(trusted*have, res.ContentLength)-have)
			body = slices.Grow(body, int(max(1, min(more, limit-have+1))))
		}
		n, err := res.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case int64(len(body)) > limit:
			return body, &SizeError{limit}
		case err == io.EOF:
			return body, nil
		case err != nil:
			return body, err
		}
	}
}

// openSession remembers the session that an answer to "initialize" names.
func (p *post) openSession(res *http.Response) error {
	session := new(dialSession)
	if lines := res.Header[headerSession]; len(lines) > 0 {
		id := lines[0]
		if len(lines) > 1 || len(id) > maxSessionID || strings.ContainsFunc(id, func(r rune) bool { return r < '!' || r > '~' }) {
			return fmt.Errorf("the name of the session must be visible ASCII of at most %d bytes, not %s", maxSessionID, jsonscan.Quote(id))
		}
		session.id = lines[:1:1]
	}
	p.session = session
	p.conn.state.open(session)
	return nil
}

// agreeOn remembers the version that a session is of, which the answer to
// "initialize" says.
func (p *post) agreeOn(resp *jsonrpc.Response) {
	version := resp.Member("protocolVersion")
	if jsonscan.KindOf(version) != jsonscan.String {
		return // whoever has called will not like it
	}
	p.conn.state.open(&dialSession{id: p.session.id, version: []string{jsonscan.Unquote(version)}})
}
