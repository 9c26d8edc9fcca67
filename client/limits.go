package client

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/peertext"
	"github.com/dovetail-go/dovetail/mcp"
)

// Limits bounds what one server can make a client store, read and ask. The zero value has the
// defaults: a field that is 0 means its default, and a negative one means no limit, which is safe
// only with a server that you trust. Exceeding a limit is a *[mcp.LimitError]. An entry of a list
// that exceeds a limit is skipped, and the error is logged.
//
// Sizes are in bytes of JSON text.
type Limits struct {
	// HandshakeBytes bounds the description that the server gives when a session is opened: name,
	// icons, capabilities and instructions. Beyond it the session is not opened. Default: 512 KiB.
	HandshakeBytes int

	// Pages is how many pages of a list are read. Default: 64.
	Pages int
	// ListEntries is how many entries a list may have. Default: 10,000.
	ListEntries int
	// ListBytes bounds all pages of a list together. Default: 8 MiB.
	ListBytes int
	// CatalogBytes bounds the entries of all lists together, for package bridge, which keeps them.
	// Default: 16 MiB.
	CatalogBytes int
	// Templates is how many resource templates a server may have: each one is compared with each
	// URI. Default: 256.
	Templates int
	// CursorBytes bounds the cursor of the next page, which is sent back. Default: 128 KiB.
	CursorBytes int

	// EntryBytes bounds the definition of one tool, prompt, resource or template. Default: 1 MiB.
	EntryBytes int
	// SchemaBytes bounds one schema of a tool. Default: 256 KiB.
	SchemaBytes int
	// TextBytes bounds one title or description of an entry. Default: 64 KiB.
	TextBytes int
	// NameBytes bounds the name of a tool or prompt. Default: 256.
	NameBytes int
	// URIBytes bounds the URI of a resource. Default: 64 KiB.
	URIBytes int
	// TemplateBytes bounds a URI template. Default: 8 KiB.
	TemplateBytes int
	// CompletionValues is how many completions are returned. More are dropped, and HasMore is set.
	// Forwarded calls have no such limit. Default: 100, the maximum of the protocol.
	CompletionValues int

	// Rounds is how many times one call may ask. Servers of this module have the same limit of 10.
	// In the legacy era it applies to forwarded calls only: other questions do not name their call, and
	// QuestionsPerMinute bounds them. A task may ask as many times again as its call. Default: 10.
	Rounds int
	// QuestionsPerMinute is how many questions the server may ask in a minute: elicitations,
	// samplings and requests for roots. For forwarded calls it is counted for each principal.
	// Default: 300.
	QuestionsPerMinute int
	// QuestionBurst is how many of these questions may come at the same time. Default: 100.
	QuestionBurst int

	// QuestionBytes bounds the parameters of one question, which a bridge sends to its clients.
	// Default: 1 MiB.
	QuestionBytes int

	// QueuedNotifications is how many changes and log messages may wait for slow handlers. The
	// oldest are dropped. Default: 1,024.
	QueuedNotifications int
	// QueuedBytes bounds these changes and log messages together. Default: 1 MiB.
	QueuedBytes int

	// Reconnects is the maximum number of consecutive attempts to renew a lost connection. Pauses
	// between them grow to 30 s. It also bounds how often one request about a task is repeated. See also
	// [Options].NoReconnect. It is max_retries of lauren-mcp. Default: 10.
	Reconnects int
}

// WithDefaults returns the limits with defaults in place of zeros, and the largest int in place of
// negative values.
func (l Limits) WithDefaults() Limits {
	for _, limit := range []struct {
		field        *int
		defaultValue int
	}{
		{&l.HandshakeBytes, 512 << 10},
		{&l.Pages, 64}, {&l.ListEntries, 10_000}, {&l.ListBytes, 8 << 20}, {&l.CatalogBytes, 16 << 20},
		{&l.Templates, 256}, {&l.CursorBytes, 128 << 10},
		{&l.EntryBytes, 1 << 20}, {&l.SchemaBytes, 256 << 10}, {&l.TextBytes, 64 << 10}, {&l.NameBytes, 256},
		{&l.URIBytes, 64 << 10}, {&l.TemplateBytes, 8 << 10}, {&l.CompletionValues, 100},
		{&l.Rounds, era.MaxRounds}, {&l.QuestionsPerMinute, 300}, {&l.QuestionBurst, 100}, {&l.QuestionBytes, 1 << 20},
		{&l.QueuedNotifications, 1024}, {&l.QueuedBytes, 1 << 20},
		{&l.Reconnects, 10},
	} {
		switch {
		case *limit.field == 0:
			*limit.field = limit.defaultValue
		case *limit.field < 0:
			*limit.field = math.MaxInt
		}
	}
	return l
}

// entriesOf returns how many entries a list may have, and the name of the limit.
func (l *Limits) entriesOf(kind mcp.Kind) (limit string, most int) {
	if kind == mcp.KindResourceTemplate && l.Templates < l.ListEntries {
		return "Templates", l.Templates
	}
	return "ListEntries", l.ListEntries
}

// CheckCount returns an error if a list has too many entries. It uses the limits that [Limits.WithDefaults] returns.
func (l *Limits) CheckCount(kind mcp.Kind, entries int) error {
	if limit, most := l.entriesOf(kind); entries > most {
		return tooMany(limit, most, "the list", "entries")
	}
	return nil
}

// CheckPage returns an error if a list is too large. pages and bytes count the pages and bytes that were read so far.
// cursor is the cursor of the next page as JSON, or nil. CheckPage uses the limits that [Limits.WithDefaults] returns.
func (l *Limits) CheckPage(pages, bytes int, cursor json.RawMessage) error {
	switch {
	case bytes > l.ListBytes:
		return tooMany("ListBytes", l.ListBytes, "the list", "bytes")
	case len(cursor) > l.CursorBytes && jsonscan.KindOf(cursor) == jsonscan.String:
		return tooMany("CursorBytes", l.CursorBytes, "the cursor of the list", "bytes")
	case pages >= l.Pages && jsonscan.KindOf(cursor) == jsonscan.String:
		return tooMany("Pages", l.Pages, "the list", "pages")
	}
	return nil
}

// CheckEntry returns an error if the definition of an entry is too large. definition is a JSON object. CheckEntry uses
// the limits that [Limits.WithDefaults] returns.
func (l *Limits) CheckEntry(kind mcp.Kind, definition json.RawMessage) error {
	s := jsonscan.New(definition)
	if err := s.EnterObject(); err != nil {
		return err
	}
	for first := true; ; first = false {
		key, more, err := s.Member(first)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		value, err := s.Value()
		if err != nil {
			return err
		}
		if err := l.checkMember(kind, key, value); err != nil {
			return err
		}
	}
	if len(definition) > l.EntryBytes {
		return tooMany("EntryBytes", l.EntryBytes, "the definition", "bytes")
	}
	return nil
}

// checkMember returns an error if a member of an entry is too large.
func (l *Limits) checkMember(kind mcp.Kind, key, value []byte) error {
	if limit, most := l.ofMember(kind, key); textSize(value) > most {
		return tooMany(limit, most, peertext.Cut(jsonscan.Unquote(key), maxQuoted), "bytes")
	}
	return nil
}

// ofMember returns the limit of a member of an entry, and its name.
func (l *Limits) ofMember(kind mcp.Kind, key []byte) (limit string, most int) {
	switch {
	case jsonscan.KeyIs(key, "inputSchema"), jsonscan.KeyIs(key, "outputSchema"), jsonscan.KeyIs(key, "payloadSchema"):
		return "SchemaBytes", l.SchemaBytes
	case jsonscan.KeyIs(key, "name") && (kind == mcp.KindTool || kind == mcp.KindPrompt || kind == mcp.KindEvent):
		return "NameBytes", l.NameBytes
	case jsonscan.KeyIs(key, "name"), jsonscan.KeyIs(key, "title"), jsonscan.KeyIs(key, "description"):
		return "TextBytes", l.TextBytes
	case jsonscan.KeyIs(key, "uri"):
		return "URIBytes", l.URIBytes
	case jsonscan.KeyIs(key, "uriTemplate"):
		return "TemplateBytes", l.TemplateBytes
	}
	return "EntryBytes", l.EntryBytes
}

// textSize returns the size of a value, without the quotes of a string.
func textSize(value json.RawMessage) int {
	if jsonscan.KindOf(value) == jsonscan.String {
		return len(value) - len(`""`)
	}
	return len(value)
}

// checkDescription returns an error if the result of a handshake is too large.
func (l *Limits) checkDescription(result json.RawMessage) error {
	if len(result) > l.HandshakeBytes {
		return tooMany("HandshakeBytes", l.HandshakeBytes, "the description of the server", "bytes")
	}
	return nil
}

func tooMany(limit string, most int, what, unit string) error {
	return &mcp.LimitError{Limit: limit, Max: most, Reason: fmt.Sprintf("%s has more than %d %s", what, most, unit)}
}
