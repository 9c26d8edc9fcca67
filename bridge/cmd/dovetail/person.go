package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/mail"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/peertext"
	"github.com/dovetail-go/dovetail/mcp"
)

// maxChanges bounds the number of changes that wait to be printed.
const maxChanges = 1024

// options returns the options of the session. The user answers questions, and changes go to
// the channel.
func (c *invocation) options(changes chan<- []byte, p *person, stderr io.Writer) *client.Options {
	logs := peertext.NewWriter(stderr, "log", nil)
	opts := &client.Options{
		Info: mcp.Implementation{Name: "dovetail", Version: version()},
		Era:  c.era, ConnectTimeout: c.timeout,
		Logger: warnings(stderr),
		Elicit: p.elicit, ElicitURLs: true,
		OnChange: func(_ context.Context, change mcp.Change) {
			line, err := json.Marshal(changeLine(change))
			if err != nil {
				return
			}
			select {
			case changes <- line:
			default:
				fmt.Fprintf(stderr, "dovetail: more than %d changes wait to be shown: one is dropped\n", maxChanges)
			}
		},
		OnLog: func(_ context.Context, m *mcp.LoggingMessageParams) {
			if c.verbose {
				fmt.Fprintf(logs, "%s %s: %s\n", m.Level, peertext.Escape(m.Logger), peertext.EscapeJSON(m.Data))
			}
		},
	}
	if c.era == client.Modern { // no other era to try
		opts.ProbeTimeout = c.timeout
	}
	return opts
}

// warnings returns a logger of warnings and errors.
func warnings(stderr io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

func changeLine(change mcp.Change) map[string]string {
	if change.URI != "" {
		return map[string]string{"changed": "resource", "uri": change.URI}
	}
	return map[string]string{"changed": change.Kind.String() + "s"}
}

// A person answers questions by typed lines, or declines them if there is no input.
type person struct {
	input *lineReader // nil: no input
	out   io.Writer
	busy  sync.Mutex // held while one question is open: a tool may ask several together
}

func (p *person) elicit(ctx context.Context, question *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	if p.input == nil {
		return &mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
	}
	p.busy.Lock()
	defer p.busy.Unlock()
	fmt.Fprintln(p.out)
	p.show("The server asks:", question.Message)
	if question.Mode == mcp.ElicitURL {
		fmt.Fprintf(p.out, "It wants you to visit %s\n", shownURL(question.URL))
		return p.agree(ctx, nil)
	}
	form, err := mcp.ParseElicitSchema(question.RequestedSchema)
	if err != nil {
		return nil, err
	}
	content, err := p.fill(ctx, form)
	if err != nil {
		return nil, err
	}
	if err := form.Check(content); err != nil {
		return nil, err
	}
	return p.agree(ctx, content)
}

const (
	// maxText is how much of a text of the server is shown, in bytes.
	maxText = 4 << 10
	// textWidth is the number of columns of a line of such a text.
	textWidth = 64
)

// shownLines returns the lines of a text of the server.
func shownLines(text string) []string {
	return peertext.Wrap(peertext.Escape(peertext.Cut(text, maxText)), textWidth)
}

// show prints a text of the server after a label. Each line of a text that is too long for one
// line begins with a margin, so that it cannot imitate a question of this program.
func (p *person) show(label, text string) {
	lines := shownLines(text)
	if len(lines) == 1 {
		fmt.Fprintln(p.out, label, lines[0])
		return
	}
	fmt.Fprintln(p.out, label)
	p.print(lines)
}

func (p *person) print(lines []string) {
	for _, line := range lines {
		fmt.Fprintln(p.out, "  |", line)
	}
}

// shownURL returns a URL as one word of visible characters. It is complete.
func shownURL(address string) string { return strings.ReplaceAll(peertext.Escape(address), " ", "%20") }

func (p *person) agree(ctx context.Context, content json.RawMessage) (*mcp.ElicitResult, error) {
	answer, err := p.input.ask(ctx, "Send this? [y]es, [n]o, anything else cancels: ")
	if err != nil {
		return nil, err
	}
	switch strings.ToLower(answer) {
	case "y", "yes":
		return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: content}, nil
	case "n", "no":
		return &mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
	}
	return &mcp.ElicitResult{Action: mcp.ElicitCancel}, nil
}

// fill asks for each field of a form, in order, until its value fits. An empty line omits an optional field.
func (p *person) fill(ctx context.Context, form *mcp.ElicitSchema) (json.RawMessage, error) {
	values := make(map[string]any)
	for _, field := range form.Fields {
		label, read := reader(field)
		lines := peertext.Wrap(peertext.Cut(oneLine(field.Name)+label, maxText), textWidth)
		prompt := "  > "
		if len(lines) == 1 {
			prompt = "  " + lines[0] + ": "
		} else {
			p.print(lines)
		}
		for {
			text, err := p.input.ask(ctx, prompt)
			if err != nil {
				return nil, err
			}
			value := map[string]any{}
			if text != "" {
				value[field.Name] = read(text)
			}
			problem := checkValue(field, value)
			if problem == "" {
				maps.Copy(values, value)
				break
			}
			p.show("  This does not fit:", problem)
		}
	}
	return json.Marshal(values)
}

// checkValue says why a value does not fit a field, "" if it does. The object has the value, or is empty.
func checkValue(field mcp.ElicitField, value map[string]any) string {
	encoded, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	err = (&mcp.ElicitSchema{Fields: []mcp.ElicitField{field}}).Check(encoded)
	if invalid, ok := errors.AsType[*mcp.DecodeError](err); ok && invalid.Expected != "" {
		return fmt.Sprintf("expected %s, got %s", invalid.Expected, invalid.Got)
	}
	if err != nil {
		return err.Error()
	}
	if text, ok := value[field.Name].(string); ok {
		if f, ok := field.Schema.(*mcp.StringSchema); ok {
			return formatProblem(f.Format, text)
		}
	}
	return ""
}

// reader returns the expected input of a field, escaped, and a function that parses it. Input that
// does not parse stays text, which the check of the field refuses.
func reader(field mcp.ElicitField) (label string, read func(string) any) {
	asText := func(text string) any { return text }
	takes, title, description, preset := "text", "", "", ""
	read = asText
	switch f := field.Schema.(type) {
	case *mcp.StringSchema:
		title, description = f.Title, f.Description
		takes = cmp.Or(oneLine(string(f.Format)), takes) + bounds(f.MinLength, f.MaxLength, "characters")
		if f.Default != nil {
			preset = peertext.Quote(*f.Default)
		}
	case *mcp.BooleanSchema:
		title, description, takes, read = f.Title, f.Description, "true or false", parsed(strconv.ParseBool)
		if f.Default != nil {
			preset = strconv.FormatBool(*f.Default)
		}
	case *mcp.NumberSchema:
		title, description, takes = f.Title, f.Description, "a number"
		if f.Integer {
			takes = "a whole number"
		}
		takes += bounds(f.Minimum, f.Maximum, "")
		read = func(text string) any { return asNumber(text) }
		if f.Default != nil {
			preset = decimal(*f.Default)
		}
	case *mcp.EnumSchema:
		title, description, takes = f.Title, f.Description, options(f)
		for i, value := range f.Default {
			if i > 0 {
				preset += ", "
			}
			preset += peertext.Quote(value)
		}
		if f.Multiple {
			takes = "some of " + takes + bounds(f.MinItems, f.MaxItems, "of them")
			read = func(text string) any { return chosen(f, text) }
		}
	}
	switch {
	case field.Required:
		takes += "; required"
	case preset != "":
		takes += "; optional, else " + preset
	default:
		takes += "; optional"
	}
	return labelled(oneLine(cmp.Or(description, title)), takes), read
}

// chosen returns the options in a text, separated by spaces or commas, which options may contain. What is no option stays
// a word.
func chosen(f *mcp.EnumSchema, text string) []string {
	const separators = " ,"
	isEnd := func(rest string) bool { return rest == "" || strings.ContainsAny(rest[:1], separators) }
	found := []string{}
	for text = strings.Trim(text, separators); text != ""; text = strings.TrimLeft(text, separators) {
		next := ""
		for _, o := range f.Options {
			if rest, ok := strings.CutPrefix(text, o.Value); ok && isEnd(rest) && len(o.Value) > len(next) {
				next = o.Value
			}
		}
		if next == "" {
			next, _, _ = strings.Cut(text, ",")
			next, _, _ = strings.Cut(next, " ")
		}
		found, text = append(found, next), text[len(next):]
	}
	return found
}

// decimal returns a number as people write it, without an exponent below 1e21.
func decimal[T int | float64](n T) string {
	text, err := json.Marshal(n)
	if err != nil { // NaN
		return fmt.Sprint(n)
	}
	return string(text)
}

// formatProblem says why a text is not of a format, "" if it is.
func formatProblem(format mcp.StringFormat, text string) string {
	ok, expected := true, ""
	switch format {
	case mcp.FormatEmail:
		address, err := mail.ParseAddress(text)
		ok, expected = err == nil && address.Address == text, "an email address such as ann@example.com"
	case mcp.FormatURI:
		address, err := url.Parse(text)
		ok, expected = err == nil && address.IsAbs(), "a URI such as https://example.com"
	case mcp.FormatDate:
		_, err := time.Parse(time.DateOnly, text)
		ok, expected = err == nil, "a date such as 2026-07-28"
	case mcp.FormatDateTime:
		_, err := time.Parse(time.RFC3339, text)
		ok, expected = err == nil, "a date and time such as 2026-07-28T14:30:00Z"
	}
	if ok {
		return ""
	}
	return "expected " + expected
}

// bounds says which values are permitted, "" if there is no bound.
func bounds[T int | float64](least, most *T, of string) string {
	text := ""
	switch {
	case least != nil && most != nil:
		text = fmt.Sprintf(", %s to %s %s", decimal(*least), decimal(*most), of)
	case least != nil:
		text = fmt.Sprintf(", at least %s %s", decimal(*least), of)
	case most != nil:
		text = fmt.Sprintf(", at most %s %s", decimal(*most), of)
	}
	return strings.TrimSuffix(text, " ")
}

func parsed[T any](parse func(string) (T, error)) func(string) any {
	return func(text string) any {
		if value, err := parse(text); err == nil {
			return value
		}
		return text
	}
}

// asNumber keeps the digits as typed.
func asNumber(text string) any {
	if json.Valid([]byte(text)) {
		return json.Number(text)
	}
	return text
}

func labelled(description, takes string) string {
	if description == "" {
		return " (" + takes + ")"
	}
	return " (" + takes + "), " + description
}

func options(f *mcp.EnumSchema) string {
	var texts []string
	for _, o := range f.Options {
		if o.Title != "" && o.Title != o.Value {
			texts = append(texts, o.Value+" = "+o.Title)
			continue
		}
		texts = append(texts, o.Value)
	}
	return oneLine(strings.Join(texts, " | "))
}

const barWidth = 30

// A progressBar prints progress, on one line of a terminal, or as one line per report elsewhere.
type progressBar struct {
	w        io.Writer
	terminal bool
	drawn    bool
}

// newBar returns a progressBar on a terminal. Elsewhere it prints lines to escaped.
func newBar(terminal, escaped io.Writer) *progressBar {
	if isTerminal(terminal) {
		return &progressBar{w: terminal, terminal: true}
	}
	return &progressBar{w: escaped}
}

func (b *progressBar) report(p *mcp.ProgressParams) {
	if !b.terminal {
		of := ""
		if p.Total != nil {
			of = " of " + decimal(*p.Total)
		}
		message := ""
		if p.Message != "" {
			message = ": " + oneLine(p.Message)
		}
		fmt.Fprintf(b.w, "progress %s%s%s\n", decimal(p.Progress), of, message)
		return
	}
	b.drawn = true
	if p.Total == nil || *p.Total <= 0 {
		fmt.Fprintf(b.w, "\r\x1b[K%s %s", decimal(p.Progress), b.message(p))
		return
	}
	share := min(max(p.Progress/(*p.Total), 0), 1)
	full := int(share * barWidth)
	fmt.Fprintf(b.w, "\r\x1b[K[%s%s] %3.0f%% %s", strings.Repeat("#", full), strings.Repeat("·", barWidth-full), share*100, b.message(p))
}

// message returns the beginning of the message that fits on the line of the bar.
func (b *progressBar) message(p *mcp.ProgressParams) string {
	const around = barWidth + 10 // columns of the bar and the figures
	lines := peertext.Wrap(peertext.Escape(peertext.Cut(p.Message, maxText)), max(1, peertext.Columns(b.w)-around))
	if len(lines) == 0 {
		return ""
	}
	return lines[0]
}

func (b *progressBar) clear() {
	if b.drawn {
		fmt.Fprint(b.w, "\r\x1b[K")
		b.drawn = false
	}
}
