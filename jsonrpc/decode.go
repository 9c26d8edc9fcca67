package jsonrpc

import (
	"math"
	"strconv"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// Decode reads one message. The raw values of the message are slices of data,
// which must not be changed afterwards.
//
// The text is scanned once. Keys match in exact case. A member that is given
// twice is refused in the message itself, in its error, and on the first two
// levels of its params or result, and so is a name with NUL or an object of
// more than 65,536 members. Unknown members of the message are ignored, and
// params that are null count as absent.
//
// The error is a *[DecodeError]: [ParseError] for what is not JSON,
// [InvalidRequest] for what is not a message.
func Decode(data []byte) (Message, error) {
	var d decoder // large, and so not made elsewhere and copied
	d.data, d.scan = data, jsonscan.New(data)
	if err := d.decode(); err != nil {
		return nil, err
	}
	return d.message(), nil
}

// A decoder is one run of [Decode]. Its slices are raw values, nil for members
// that have not come.
type decoder struct {
	parser
	names   jsonscan.Keys // of the message's own members
	version []byte
	id      []byte
	method  []byte
	params  []byte
	result  []byte
	error   []byte
	err     *Error // what error says
	members index
	idTwice bool
}

func (d *decoder) decode() error {
	if uint64(len(d.data)) > math.MaxUint32 {
		return &DecodeError{Err: &Error{Code: InvalidRequest, Message: "a message must be shorter than 4 GiB"}}
	}
	if err := d.read(); err != nil {
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

// message is what has been decoded.
func (d *decoder) message() Message {
	if d.isNotification() {
		return d.notification()
	}
	id, method := d.texts()
	if d.method != nil {
		return &Request{ID: id, Method: method, Params: d.params, members: d.members}
	}
	return &Response{ID: id, Result: d.result, Error: d.err, members: d.members}
}

func (d *decoder) isNotification() bool { return d.method != nil && d.id == nil }

// read scans the message and keeps what it finds.
func (d *decoder) read() error {
	if kind := d.scan.Kind(); kind != jsonscan.Object {
		if _, err := d.scan.Value(); err != nil {
			return err
		}
		d.note("a message must be an object, not %v", kind)
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
			d.note("%v in the message", err)
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
		d.result, err = d.indexed(&d.members, "result")
	case jsonscan.KeyIs(key, "error"):
		d.error, err = d.readError()
	default:
		_, err = d.scan.Value()
	}
	return err
}

// readError scans the value of the member error.
func (d *decoder) readError() ([]byte, error) {
	if d.scan.Kind() != jsonscan.Object {
		return d.scan.Value() // check will complain
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
			d.note("%v in error", err)
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
		d.note("error.message must be a string, not %s", orMissing(message))
		message = []byte(`""`)
	}
	number, err := strconv.Atoi(string(code))
	if err != nil {
		d.note("error.code must be an integer, not %s", orMissing(code))
	}
	d.err = &Error{Code: Code(number), Message: jsonscan.Unquote(message), Data: data}
	return d.data[start:d.scan.Offset()], nil
}

// check notes what keeps the members that were read from making a message.
func (d *decoder) check() {
	switch kind := jsonscan.KindOf(d.version); {
	case kind != jsonscan.String:
		d.note(`jsonrpc must be "2.0", not %s`, orMissing(d.version))
	case !jsonscan.KeyIs(d.version, "2.0"):
		d.note(`jsonrpc must be "2.0", not %s`, jsonscan.Quote(jsonscan.Unquote(d.version)))
	case d.method != nil:
		d.checkRequest()
	default:
		d.checkResponse()
	}
}

func (d *decoder) checkRequest() {
	if kind := jsonscan.KindOf(d.method); kind != jsonscan.String {
		d.note("method must be a string, not %v", kind)
	}
	if d.result != nil || d.error != nil {
		d.note("a message must not have both a method and a result or an error")
	}
	if d.id != nil {
		d.checkID()
	}
	switch kind := jsonscan.KindOf(d.params); {
	case d.params == nil, kind == jsonscan.Object, kind == jsonscan.Array:
	case kind == jsonscan.Null:
		d.params = nil
	default:
		d.note("params must be an object or an array, not %v", kind)
	}
}

func (d *decoder) checkResponse() {
	switch {
	case d.result != nil && d.error != nil:
		d.note("a response must not have both a result and an error")
	case d.result == nil && d.error == nil:
		d.note("a message must have a method, a result or an error")
	case d.error != nil && d.err == nil:
		d.note("error must be an object, not %v", jsonscan.KindOf(d.error))
	case d.error != nil && (d.id == nil || jsonscan.KindOf(d.id) == jsonscan.Null):
		d.id = nil // its sender could not read the id of the call
	case d.id == nil:
		d.note("a response with a result must have an id")
	default:
		d.checkID()
	}
}

func (d *decoder) checkID() {
	if problem := idProblem(d.id); problem != "" {
		d.note("%s", problem)
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
		Response: d.method == nil && (d.result != nil || d.error != nil),
		Err:      &Error{Code: code, Message: message},
	}
	if d.id != nil && !d.idTwice && idProblem(d.id) == "" {
		e.ID = ID{string(d.id)}
	}
	return e
}

// orMissing says what a value is, in words.
func orMissing(raw []byte) string {
	if raw == nil {
		return "missing"
	}
	if jsonscan.KindOf(raw) == jsonscan.Number {
		return "the number " + jsonscan.Quote(string(raw))
	}
	return jsonscan.KindOf(raw).String()
}
