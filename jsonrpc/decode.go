package jsonrpc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// Decode decodes one message. The raw values of the message are slices of data, which must
// not be changed afterwards.
//
// The text is scanned once. Keys match in exact case. Decode refuses duplicate members, names
// with NUL and objects of more than 65,536 members in the message itself, in its error, and
// on the first two levels of its params or result. It ignores unknown members of the message,
// and treats params that are null as absent.
//
// The error is a *[DecodeError]: [ParseError] if the text is not JSON, [InvalidRequest] if
// the JSON is not a message. It has the id of the message also if the text is not JSON, as far
// as the message's own members can be told from their quotes, brackets and commas.
//
// A notification of MCP, whose method begins with "notifications/", may have the id null, as
// in JSON-RPC 1.0.
func Decode(data []byte) (Message, error) {
	var d decoder // too large to copy from a constructor
	d.data, d.scan = data, jsonscan.New(data)
	if err := d.decode(); err != nil {
		return nil, err
	}
	return d.message(), nil
}

// BusyError returns the error of a message that is refused because of its size, so that its peer
// can try again later. begin is the message or its beginning, and end is the end of the message if
// begin is not complete. The error has the id of the message if the id is in begin beside the method
// or a result, or if the id is the last member.
func BusyError(begin, end []byte, reason error) *DecodeError {
	return refuseUnread(begin, end, &Error{Code: Busy, Message: reason.Error()})
}

// refuseUnread returns the error of a message that is not decoded. See [BusyError].
func refuseUnread(begin, end []byte, reason *Error) *DecodeError {
	var d decoder
	d.data = begin
	d.findMembers(end)
	e := &DecodeError{Response: d.method == nil && d.answers, Err: reason}
	if d.id != nil && !d.idTwice && idProblem(d.id) == "" {
		e.ID = ID{string(d.id)}
	}
	return e
}

// findMembers finds the message's own members in a text that may not be JSON, or end early. It
// reads only quotes, brackets, colons and commas. It sets answers, and method to the text after
// its key. If one of the two is there, it sets id, which may also be the last member of end.
func (d *decoder) findMembers(end []byte) {
	d.id, d.method, d.answers, d.idTwice = nil, nil, false, false
	d.findFirst()
	switch {
	case d.method == nil && !d.answers:
		d.id = nil
	case !d.hasID:
		d.id = lastID(end)
	}
}

// findFirst finds the members up to where the brackets no longer match.
func (d *decoder) findFirst() {
	var key, value []byte
	depth, start := 0, 0
	for pos := 0; pos < len(d.data); pos++ {
		switch c := d.data[pos]; c {
		case '"':
			begin := pos
			pos = endOfString(d.data, pos)
			if depth == 1 && key == nil && pos < len(d.data) {
				key = d.data[begin : pos+1]
			}
		case '{', '[':
			if depth == 0 && c != '{' {
				return // no message
			}
			depth++
		case ':':
			if depth == 1 && start == 0 {
				start = pos + 1
				d.foundMember(key, d.data[start:])
			}
		case ',', '}', ']':
			if depth == 1 && start > 0 {
				value = bytes.TrimSpace(d.data[start:pos])
				if string(key) == `"id"` && jsonscan.Valid(value) == nil {
					d.id = value
				}
				key, start = nil, 0
			}
			if c != ',' {
				depth--
			}
			if depth <= 0 {
				return
			}
		case ' ', '\t', '\r', '\n':
		default:
			if depth == 0 {
				return // no message
			}
		}
	}
}

// foundMember records a member whose value begins with text.
func (d *decoder) foundMember(key, text []byte) {
	switch string(key) {
	case `"id"`:
		d.idTwice = d.idTwice || d.hasID
		d.hasID = true
	case `"method"`:
		d.method = text
	case `"result"`, `"error"`:
		d.answers = true
	}
}

// endOfString returns the index of the quote that ends the string at pos, or the length of data.
func endOfString(data []byte, pos int) int {
	for pos++; pos < len(data) && data[pos] != '"'; pos++ {
		if data[pos] == '\\' {
			pos++
		}
	}
	return min(pos, len(data))
}

// lastID returns the id if it is the last member of the message that ends with text, or nil. Only
// quotes that are not escaped match, so text that looks like an id within a string does not.
func lastID(text []byte) []byte {
	const space = " \t\r\n"
	text, complete := bytes.CutSuffix(bytes.TrimRight(text, space), []byte("}"))
	key := bytes.LastIndex(text, []byte(`"id"`))
	if !complete || key < 0 || !bytes.HasSuffix(bytes.TrimRight(text[:key], space), []byte(",")) {
		return nil
	}
	value, ok := bytes.CutPrefix(bytes.TrimLeft(text[key+len(`"id"`):], space), []byte(":"))
	if value = bytes.Trim(value, space); !ok || !json.Valid(value) {
		return nil
	}
	return value
}

// A decoder is the state of one [Decode]. Its slices are raw values, nil for absent members.
type decoder struct {
	parser
	names   jsonscan.Keys // of the message's own members
	version []byte
	id      []byte
	method  []byte
	params  []byte
	result  []byte
	error   []byte
	err     *Error // decoded from error
	members index
	idTwice bool // the message has two ids, so neither is used
	hasID   bool // findMembers has found an id
	answers bool // the message has a result or an error, which may be incomplete
}

func (d *decoder) decode() error {
	if uint64(len(d.data)) > math.MaxUint32 {
		return &DecodeError{Err: &Error{Code: InvalidRequest, Message: "a message must be shorter than 4 GiB"}}
	}
	if err := d.read(); err != nil {
		d.findMembers(d.data)
		return d.refuse(ParseError, err.Error())
	}
	if d.issue == "" {
		d.check()
	}
	if d.issue != "" {
		return d.refuse(InvalidRequest, d.issue)
	}
	return nil
}

// message returns the decoded message.
func (d *decoder) message() Message {
	if d.method != nil && d.id == nil {
		return d.notification()
	}
	id, method := d.texts()
	if d.method != nil {
		return &Request{ID: id, Method: method, Params: d.params, members: d.members}
	}
	return &Response{ID: id, Result: d.result, Error: d.err, members: d.members}
}

// notification returns the decoded notification. It reuses the memory of a recycled one if
// there is one.
func (d *decoder) notification() *Request {
	r, ok := notifications.Get().(*Request)
	if !ok {
		r = new(Request)
	}
	if !jsonscan.KeyIs(d.method, r.Method) {
		r.Method = jsonscan.Unquote(d.method)
	}
	r.Params, r.members = d.params, d.members
	return r
}

// read scans the message and records its members.
func (d *decoder) read() error {
	if kind := d.scan.Kind(); kind != jsonscan.Object {
		if _, err := d.scan.Value(); err != nil {
			return err
		}
		d.addIssue("a message must be an object, not %v", kind)
		return d.scan.End()
	}
	if err := d.scan.EnterObject(); err != nil {
		return err
	}
	for first := true; ; first = false {
		key, ok, err := d.scan.Member(first)
		if err != nil {
			return err
		}
		if !ok {
			return d.scan.End()
		}
		if err := d.names.Add(key, d.scan.KeyOffset()); err != nil {
			d.addIssue("%v in the message", err)
			d.idTwice = d.idTwice || jsonscan.KeyIs(key, "id")
		}
		if err := d.value(key); err != nil {
			return err
		}
	}
}

func (d *decoder) value(key []byte) (err error) {
	switch {
	case jsonscan.KeyIs(key, "jsonrpc"):
		d.version, err = d.scan.Value()
	case jsonscan.KeyIs(key, "id"):
		d.id, err = d.scan.Value()
	case jsonscan.KeyIs(key, "method"):
		d.method, err = d.scan.Value()
	case jsonscan.KeyIs(key, "params"):
		d.params, err = d.indexed(&d.members, "params")
	case jsonscan.KeyIs(key, "result"):
		d.answers = true
		d.result, err = d.indexed(&d.members, "result")
	case jsonscan.KeyIs(key, "error"):
		d.answers = true
		d.error, err = d.readError()
	default:
		_, err = d.scan.Value()
	}
	return err
}

// readError scans the value of the member error.
func (d *decoder) readError() ([]byte, error) {
	if d.scan.Kind() != jsonscan.Object {
		return d.scan.Value() // checkResponse refuses it
	}
	if err := d.scan.EnterObject(); err != nil {
		return nil, err
	}
	start := d.scan.Offset() - len("{")
	var code, message, data []byte
	d.keys[0].Reset()
	for first := true; ; first = false {
		key, ok, err := d.scan.Member(first)
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		if err := d.keys[0].Add(key, d.scan.KeyOffset()); err != nil {
			d.addIssue("%v in error", err)
		}
		value, err := d.scan.Value()
		if err != nil {
			return nil, err
		}
		switch {
		case jsonscan.KeyIs(key, "code"):
			code = value
		case jsonscan.KeyIs(key, "message"):
			message = value
		case jsonscan.KeyIs(key, "data"):
			data = value
		}
	}
	if jsonscan.KindOf(message) != jsonscan.String {
		d.addIssue("error.message must be a string, not %s", orMissing(message))
		message = []byte(`""`)
	}
	number, err := strconv.Atoi(string(code))
	if err != nil {
		d.addIssue("error.code must be an integer, not %s", orMissing(code))
	}
	d.err = &Error{Code: Code(number), Message: jsonscan.Unquote(message), Data: data}
	return d.data[start:d.scan.Offset()], nil
}

// check adds an issue if the members do not form a valid message.
func (d *decoder) check() {
	switch kind := jsonscan.KindOf(d.version); {
	case kind != jsonscan.String:
		d.addIssue(`jsonrpc must be "2.0", not %s`, orMissing(d.version))
	case !jsonscan.KeyIs(d.version, "2.0"):
		d.addIssue(`jsonrpc must be "2.0", not %s`, jsonscan.Quote(jsonscan.Unquote(d.version)))
	case d.method != nil:
		d.checkRequest()
	default:
		d.checkResponse()
	}
}

func (d *decoder) checkRequest() {
	if kind := jsonscan.KindOf(d.method); kind != jsonscan.String {
		d.addIssue("method must be a string, not %v", kind)
	}
	if d.result != nil || d.error != nil {
		d.addIssue("a message must not have both a method and a result or an error")
	}
	if jsonscan.KindOf(d.id) == jsonscan.Null && bytes.HasPrefix(d.method, []byte(`"notifications/`)) {
		d.id = nil
	}
	if d.id != nil {
		d.checkID()
	}
	switch kind := jsonscan.KindOf(d.params); {
	case d.params == nil, kind == jsonscan.Object, kind == jsonscan.Array:
	case kind == jsonscan.Null:
		d.params = nil
	default:
		d.addIssue("params must be an object or an array, not %v", kind)
	}
}

func (d *decoder) checkResponse() {
	switch {
	case d.result != nil && d.error != nil:
		d.addIssue("a response must not have both a result and an error")
	case d.result == nil && d.error == nil:
		d.addIssue("a message must have a method, a result or an error")
	case d.error != nil && d.err == nil:
		d.addIssue("error must be an object, not %v", jsonscan.KindOf(d.error))
	case d.error != nil && (d.id == nil || jsonscan.KindOf(d.id) == jsonscan.Null):
		d.id = nil // the peer could not read the id of the call
	case d.id == nil:
		d.addIssue("a response with a result must have an id")
	default:
		d.checkID()
	}
}

func (d *decoder) checkID() {
	if problem := idProblem(d.id); problem != "" {
		d.addIssue("%s", problem)
	}
}

// texts returns the id and the method, which share one allocation.
func (d *decoder) texts() (ID, string) {
	var scratch [128]byte
	buf := append(scratch[:0], d.id...)
	end := len(buf)
	if d.method != nil {
		buf = jsonscan.AppendUnquoted(buf, d.method)
	}
	text := string(buf)
	return ID{text[:end]}, text[end:]
}

func (d *decoder) refuse(code Code, message string) error {
	e := &DecodeError{
		Response: d.method == nil && d.answers,
		Err:      &Error{Code: code, Message: message},
	}
	if d.id != nil && !d.idTwice && idProblem(d.id) == "" {
		e.ID = ID{string(d.id)}
	}
	return e
}

// orMissing describes a value for an error message.
func orMissing(raw []byte) string {
	if raw == nil {
		return "missing"
	}
	if jsonscan.KindOf(raw) == jsonscan.Number {
		return "the number " + jsonscan.Quote(string(raw))
	}
	return jsonscan.KindOf(raw).String()
}

// A parser scans the parts of a message. Its methods return an error for invalid JSON. For
// valid JSON that the protocol forbids they add an issue and continue, since the id may come
// later in the text.
type parser struct {
	data  []byte
	scan  jsonscan.Scanner
	keys  [indexedLevels]jsonscan.Keys
	issue string // the first one
	base  int    // offset of the text that is being indexed
}

func (p *parser) addIssue(format string, args ...any) {
	if p.issue == "" {
		p.issue = fmt.Sprintf(format, args...)
	}
}

// indexed scans a value. If the value is an object, indexed records its members in x. part
// names the value in issues.
func (p *parser) indexed(x *index, part string) ([]byte, error) {
	if p.scan.Kind() != jsonscan.Object {
		return p.scan.Value()
	}
	x.reset()
	text, err := p.object(x, 0, part, nil)
	x.text = text
	return text, err
}

// object scans an object on one of the levels that are indexed. parent is the
// raw key of the member that it is the value of, nil on the first level.
func (p *parser) object(x *index, level int, part string, parent []byte) ([]byte, error) {
	if err := p.scan.EnterObject(); err != nil {
		return nil, err
	}
	start := p.scan.Offset() - len("{")
	if level == 0 {
		p.base = start
	}
	keys := &p.keys[level]
	keys.Reset()
	for first := true; ; first = false {
		key, ok, err := p.scan.Member(first)
		if err != nil {
			return nil, err
		}
		if !ok {
			end := p.scan.Offset()
			return p.data[start:end:end], nil
		}
		if err := keys.Add(key, p.scan.KeyOffset()); err != nil {
			p.addMemberIssue(err, part, parent)
		}
		i := x.add(p.scan.KeyOffset() - p.base)
		var value []byte
		if level+1 < indexedLevels && p.scan.Kind() == jsonscan.Object {
			value, err = p.object(x, level+1, part, key)
		} else {
			value, err = p.scan.Value()
		}
		if err != nil {
			return nil, err
		}
		x.setValue(i, p.scan.Offset()-p.base, len(value))
	}
}

func (p *parser) addMemberIssue(err error, part string, parent []byte) {
	if parent == nil {
		p.addIssue("%v in %s", err, part)
		return
	}
	p.addIssue("%v in member %s of %s", err, jsonscan.Quote(jsonscan.Unquote(parent)), part)
}
