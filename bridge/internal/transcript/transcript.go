// Package transcript stores the messages of one session in a file, and replays them. It replays as a server for another
// client, or as a client of another server.
//
// A file has one JSON object on each line: a header, and then messages with their direction and the
// time in milliseconds since the first. It contains everything that was sent, secrets included.
package transcript

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/internal/sharedfile"
)

const (
	// maxFile is the size of the largest file, in bytes.
	maxFile = 64 << 20
	// version is the version of the format.
	version = 1
)

type header struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
}

const format = "dovetail-transcript"

// A line is a message in a file.
type line struct {
	Milliseconds int64           `json:"ms"`
	From         string          `json:"from"` // client or server
	Message      json.RawMessage `json:"message"`
}

// A Recorder writes the messages of one session to a file. Its methods may be called concurrently.
type Recorder struct {
	mu    sync.Mutex
	path  string
	file  *os.File  // empty before the first message
	began time.Time // of the first message; zero before it
	size  int
	err   error
}

// Create returns a recorder for a file. The error says that the file cannot be written. The first message replaces an
// older file by a new one with the mode 0600, so that a session that fails to start keeps an older transcript. Each
// message is written immediately.
func Create(path string) (*Recorder, error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return &Recorder{path: path, file: file}, nil
}

// Record adds a message. After an error, it does nothing; Close returns the error.
func (r *Recorder) Record(fromClient bool, message []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !json.Valid(message) {
		return // servers may print other text
	}
	if r.began.IsZero() {
		r.began = time.Now()
		if r.err = r.replace(); r.err == nil {
			r.write(header{format, version})
		}
	}
	r.write(line{time.Since(r.began).Milliseconds(), sender(fromClient), message})
}

// sender returns the sender of a message as lines have it.
func sender(isClient bool) string {
	if isClient {
		return "client"
	}
	return "server"
}

// A Message is a message of a session.
type Message struct {
	At         time.Time
	FromClient bool
	Text       json.RawMessage
}

// Encode returns the content of a file with messages. The error says that one is no JSON text.
func Encode(messages []Message) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(header{format, version}); err != nil {
		return nil, err
	}
	for _, m := range messages {
		if err := encoder.Encode(line{m.At.Sub(messages[0].At).Milliseconds(), sender(m.FromClient), m.Text}); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// replace replaces the file: messages have secrets, and others may have the old one open.
func (r *Recorder) replace() error {
	if err := r.file.Close(); err != nil {
		return err
	}
	file, err := sharedfile.Recreate(r.path)
	if err == nil {
		r.file = file
	}
	return err
}

func (r *Recorder) write(value any) {
	if r.err != nil {
		return
	}
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if r.err = encoder.Encode(value); r.err != nil {
		return
	}
	if r.size += b.Len(); r.size > maxFile {
		r.err = fmt.Errorf("the transcript ends at %d bytes: later messages are not recorded", maxFile)
		return
	}
	_, r.err = r.file.Write(b.Bytes())
}

// Close closes the file. It also returns the first error of writing a message.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(r.err, r.file.Close())
}

// A message is a JSON-RPC message.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *rpcError       `json:"error"`
}

type rpcError struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// A Transcript is the content of a file.
type Transcript struct {
	// steps are the requests and notifications of the client, in order.
	steps []*step
	// answers are the client's answers to requests of the server, by method, in order.
	answers map[string][]*message
}

// A step is a request or a notification of the client, with the messages that the server sent for it.
type step struct {
	message
	response *message   // nil: none was recorded
	during   []*message // requests and notifications of the server before the response, and after it until the next step
	after    int        // how many of during came before the response
}

// Load reads a file.
func Load(path string) (*Transcript, error) {
	text, err := sharedfile.Read(path, maxFile)
	if err != nil {
		return nil, err
	}
	t, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// parse parses the content of a file.
func parse(text []byte) (*Transcript, error) {
	first, rest, _ := bytes.Cut(text, []byte("\n"))
	var head header
	if json.Unmarshal(first, &head) != nil || head.Format != format {
		return nil, errors.New("line 1: expected the header of a transcript")
	}
	if head.Version != version {
		return nil, fmt.Errorf("line 1: expected version %d of the format, found %d", version, head.Version)
	}
	p := &parser{t: &Transcript{answers: make(map[string][]*message)}, open: make(map[string]*step), asked: make(map[string]*message)}
	for number := 2; len(rest) > 0; number++ {
		var text []byte
		text, rest, _ = bytes.Cut(rest, []byte("\n"))
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		var l line
		var m message
		if err := json.Unmarshal(text, &l); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		if err := json.Unmarshal(l.Message, &m); err != nil {
			return nil, fmt.Errorf("line %d: message: %w", number, err)
		}
		switch l.From {
		case "client":
			p.client(&m)
		case "server":
			p.server(&m)
		default:
			return nil, fmt.Errorf(`line %d: from: expected "client" or "server"`, number)
		}
	}
	return p.t, nil
}

type parser struct {
	t      *Transcript
	open   map[string]*step    // requests of the client without a response, by id
	asked  map[string]*message // requests of the server without a response, by id
	latest *step               // the step to which the server's messages belong
}

func (p *parser) client(m *message) {
	if m.Method == "" { // an answer
		if question := p.asked[string(m.ID)]; question != nil {
			p.t.answers[question.Method] = append(p.t.answers[question.Method], m)
			delete(p.asked, string(m.ID))
		}
		return
	}
	s := &step{message: *m, after: -1}
	p.t.steps = append(p.t.steps, s)
	if m.ID != nil {
		p.open[string(m.ID)] = s
	}
	if m.ID != nil || p.latest == nil {
		p.latest = s
	}
}

func (p *parser) server(m *message) {
	if m.Method != "" {
		if m.ID != nil {
			p.asked[string(m.ID)] = m
		}
		if p.latest != nil {
			p.latest.during = append(p.latest.during, m)
		}
		return
	}
	if s := p.open[string(m.ID)]; s != nil {
		s.response, s.after = m, len(s.during)
		delete(p.open, string(m.ID))
	}
}
