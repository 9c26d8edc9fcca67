package jsonrpc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// Decode decodes one message. The raw values of the message are slices of data, which must
// not be changed afterwards.
//
// The text is scanned once. Keys match in exact case. Decode refuses duplicate members, names
// with NUL and objects of more than 65,536 members in the message itself, in its error, and
// on the first two levels of its params or result. There are two exceptions: see
// [Request.ArgumentsError], and the member structuredContent of a result, which may have
// duplicates. It ignores unknown members of the message and a byte order
// mark before it.
//
// A method, params, result or error that is null is absent, unless the message would then have none of
// them. An error keeps its message: a code that is no integer, even as text, is [InternalError].
// In a response, bytes that are not UTF-8 are replaced by U+FFFD, in a copy of data.
//
// The error is a *[DecodeError]: [ParseError] if the text is not JSON, [InvalidRequest] if
// the JSON is not a message. It has the id of the message also if the text is not JSON, as far
// as the message's own members can be told from their quotes, brackets and commas.
//
// A notification of MCP, whose method begins with "notifications/", may have the id null, as
// in JSON-RPC 1.0.
func Decode(data []byte) (Message, error) {
	var d decoder // too large to copy from a constructor
	d.data = jsonscan.TrimBOM(data)
	d.scan = jsonscan.New(d.data)
	err := d.decode()
	if err == nil {
		return d.message(), nil
	}
	if bad, ok := err.(*DecodeError); ok && bad.Response && bad.Err.Code == ParseError && !utf8.Valid(d.data) {
		if message, again := Decode(bytes.ToValidUTF8(d.data, []byte("\uFFFD"))); again != nil {
			return nil, again
		} else if response, ok := message.(*Response); ok {
			return response, nil
		}
	}
	return nil, err
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
	d.data = jsonscan.TrimBOM(begin)
	d.findMembers(end)
	e := &DecodeError{Response: d.isResponse(), Err: reason}
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
		if jsonscan.KindOf(text) != jsonscan.Null {
			d.method = text
		}
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
	d.dropNulls()
	if d.issue == "" {
		d.check()
	}
	if d.issue != "" {
		return d.refuse(InvalidRequest, d.issue)
	}
	return nil
}

// dropNulls removes members of the message that are null and so absent.
func (d *decoder) dropNulls() {
	if jsonscan.KindOf(d.method) == jsonscan.Null {
		d.method = nil
	}
	if jsonscan.KindOf(d.params) == jsonscan.Null {
		d.params = nil
	}
	if jsonscan.KindOf(d.error) == jsonscan.Null && (d.result != nil || d.method != nil) {
		d.error = nil
	}
	if jsonscan.KindOf(d.result) == jsonscan.Null && (d.error != nil || d.method != nil) {
		d.result = nil
	}
}

// isResponse reports whether a message that cannot be decoded has a result or an error and no method.
func (d *decoder) isResponse() bool { return d.answers && jsonscan.KindOf(d.method) != jsonscan.String }

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
		d.params, err = d.indexed(&d.members, partParams)
	case jsonscan.KeyIs(key, "result"):
		d.answers = true
		d.result, err = d.indexed(&d.members, partResult)
	case jsonscan.KeyIs(key, "error"):
		d.answers = true
		d.error, err = d.readError()
	default:
		_, err = d.scan.Value()
	}
	return err
}

// readError scans the value of the member error: an object, or text that is only a message.
func (d *decoder) readError() ([]byte, error) {
	if d.scan.Kind() != jsonscan.Object {
		value, err := d.scan.Value()
		if err == nil && jsonscan.KindOf(value) == jsonscan.String {
			d.err = &Error{Code: InternalError, Message: jsonscan.Unquote(value)}
		}
		return value, err // checkResponse refuses other values
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
	d.err = &Error{Code: errorCode(code), Message: errorMessage(message), Data: data}
	return d.data[start:d.scan.Offset()], nil
}

// errorCode returns the code in a raw value: an integer, such as -32000, -32000.0 or "-32000". It returns
// [InternalError] for any other value.
func errorCode(raw []byte) Code {
	text := raw
	if jsonscan.KindOf(raw) == jsonscan.String {
		text = jsonscan.AppendUnquoted(nil, raw)
	}
	if n, err := strconv.Atoi(string(text)); err == nil {
		return Code(n)
	}
	if jsonscan.KindOf(text) == jsonscan.Number && jsonscan.Valid(text) == nil && isWhole(text) {
		n, _ := strconv.ParseFloat(string(text), 64) // isWhole has checked it
		return Code(n)
	}
	return InternalError
}

// errorMessage returns the message in a raw value. A value that is no string is its own JSON.
func errorMessage(raw []byte) string {
	switch jsonscan.KindOf(raw) {
	case jsonscan.String:
		return jsonscan.Unquote(raw)
	case jsonscan.Null:
		return ""
	}
	return string(raw)
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
		Response: d.isResponse(),
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
	// refuses says that duplicates of the first two levels are an issue in arguments, too.
	refuses bool
	base    int // offset of the text that is being indexed
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
	arguments := parent != nil && isArguments(part, parent)
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
			if _, duplicate := err.(*jsonscan.DuplicateError); duplicate && arguments && !p.refuses {
				x.n |= ambiguousArguments
			} else {
				p.addMemberIssue(err, part, parent)
			}
		}
		i := x.add(p.scan.KeyOffset() - p.base)
		var value []byte
		switch kind := p.scan.Kind(); {
		case kind != jsonscan.Object && kind != jsonscan.Array:
			value, err = p.scan.Value()
		case arguments, level == 0 && kind == jsonscan.Array && isArguments(part, key):
			value, err = p.uniqueValue(x)
		case level == 0 && kind == jsonscan.Object && !isPayload(part, key):
			value, err = p.object(x, 1, part, key)
		default:
			value, err = p.scan.Value()
		}
		if err != nil {
			return nil, err
		}
		x.setValue(i, p.scan.Offset()-p.base, len(value))
	}
}

// uniqueValue scans a value in the arguments of a call.
func (p *parser) uniqueValue(x *index) ([]byte, error) {
	start := p.scan
	value, err := p.scan.UniqueValue()
	switch err.(type) {
	case *jsonscan.DuplicateError, *jsonscan.SizeError:
		x.n |= ambiguousArguments
		p.scan = start
		return p.scan.Value()
	}
	return value, err
}

// isArguments reports whether a member of params has the arguments of a call, which policies and approvers read.
func isArguments(part string, key []byte) bool {
	return part == partParams && jsonscan.KeyIs(key, "arguments")
}

// isPayload reports whether a member of a result is data for a model or a program, which decides nothing. The elements of
// the lists content and contents are not read here. A content that is an object may be the answer of a person, who decides.
func isPayload(part string, key []byte) bool {
	return part == partResult && jsonscan.KeyIs(key, "structuredContent")
}

// Parts of a message.
const (
	partParams = "params"
	partResult = "result"
)

func (p *parser) addMemberIssue(err error, part string, parent []byte) {
	if parent == nil {
		p.addIssue("%v in %s", err, part)
		return
	}
	p.addIssue("%v in member %s of %s", err, jsonscan.Quote(jsonscan.Unquote(parent)), part)
}
