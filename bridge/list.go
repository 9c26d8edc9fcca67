package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dovetail-go/dovetail/bridge/internal/entrycheck"
	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/internal/era"
	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// A list is one list of a server, as read at one time.
type list struct {
	entries  []listed
	refused  reports       // of entries that are not valid or exceed a limit
	repaired reports       // of entries that are offered in another form, because they are not valid
	warnings []error       // about the list as a whole
	size     int           // bytes of the definitions
	bridges  []string      // that the server is connected to, directly or through others
	ttl      time.Duration // ttlMs of the list, 0 if there is none
	err      error         // why the list, or its last pages, could not be read
}

// listMethods are the lists of a server, in the order in which they use [client.Limits].CatalogBytes.
var listMethods = [...]listMethod{
	{mcp.KindTool, mcp.MethodToolsList, "tools", "name"},
	{mcp.KindPrompt, mcp.MethodPromptsList, "prompts", "name"},
	{mcp.KindResource, mcp.MethodResourcesList, "resources", "uri"},
	{mcp.KindResourceTemplate, mcp.MethodResourceTemplatesList, "resourceTemplates", "uriTemplate"},
	{mcp.KindSkill, mcp.MethodSkillsList, "skills", "uri"},
	{mcp.KindEvent, mcp.MethodEventsList, "events", "name"},
}

// A listMethod says how entries of a kind are listed.
type listMethod struct {
	kind         mcp.Kind
	method       string
	resultMember string // of the result, which has the entries
	nameMember   string // member of an entry that identifies it
}

// listMethodOf returns the list that a method returns, or nil.
func listMethodOf(method string) *listMethod {
	if method == mcp.MethodDirectoryRead {
		return &listMethod{mcp.KindResource, method, "resources", "uri"}
	}
	for i := range listMethods {
		if listMethods[i].method == method {
			return &listMethods[i]
		}
	}
	return nil
}

// valid returns a page with valid entries, or the page itself if it is no page. It logs what was changed.
func (m *listMethod) valid(page json.RawMessage, logger *slog.Logger) json.RawMessage {
	valid, repairs, err := entrycheck.List(m.kind, m.resultMember, page)
	if err != nil {
		return page
	}
	for _, repair := range repairs {
		logger.Warn("an entry of a list is not valid", "method", m.method, "entry", repair)
	}
	return valid
}

// isDeclared reports whether the server has the list.
func (m *listMethod) isDeclared(has mcp.ServerCapabilities) bool {
	switch m.kind {
	case mcp.KindTool:
		return has.Tools != nil
	case mcp.KindPrompt:
		return has.Prompts != nil
	case mcp.KindSkill:
		return has.Extensions[mcp.ExtensionSkills] != nil
	case mcp.KindEvent:
		return has.Extensions[mcp.ExtensionEvents] != nil
	}
	return has.Resources != nil
}

// A listed entry is an element of a list.
type listed struct {
	kind       mcp.Kind
	name       string // or URI, or template
	definition json.RawMessage
}

// read reads all pages of a list. After an error the list has the pages before it, unless it exceeds
// a limit.
func (m *listMethod) read(ctx context.Context, session *client.Session, limits *client.Limits) *list {
	l := new(list)
	err := l.readPages(ctx, session, limits, m)
	if missing, ok := errors.AsType[*jsonrpc.Error](err); ok && missing.Code == jsonrpc.MethodNotFound {
		return l // some servers declare a kind without implementing its list
	}
	if _, limited := errors.AsType[*mcp.LimitError](err); limited {
		l = &list{bridges: l.bridges}
	}
	if err != nil {
		l.err = fmt.Errorf("%s: %w", m.method, err)
	}
	return l
}

func (l *list) readPages(ctx context.Context, session *client.Session, limits *client.Limits, m *listMethod) error {
	var params json.RawMessage
	var cursors era.Cursors
	for pages, bytes, count := 1, 0, 0; ; pages++ {
		page, err := session.Call(ctx, m.method, params, nil)
		if err != nil {
			return err
		}
		result, err := jsonscan.ReadObject(page)
		if err != nil {
			return err
		}
		cursor := result.Get("nextCursor")
		bytes += len(page)
		if err := limits.CheckPage(pages, bytes, cursor); err != nil {
			return err
		}
		l.addTTL(result.Get("ttlMs"))
		l.addBridges(mcp.Meta(result.Get("_meta")))
		end := cursors.Add(cursor, result.Get(m.resultMember))
		if end != "" {
			l.warnings = append(l.warnings, fmt.Errorf("%s: %s", m.method, end))
		}
		if end == era.RepeatedPage {
			return nil
		}
		entries, invalid, err := appendEntries(nil, m, result.Get(m.resultMember))
		if err != nil {
			return err
		}
		count += len(entries) + len(invalid)
		if err := limits.CheckCount(m.kind, count); err != nil {
			return err
		}
		l.refused.add(invalid...)
		if err := l.add(entries, limits); err != nil {
			return err
		}
		if jsonscan.KindOf(cursor) != jsonscan.String {
			return nil
		}
		if end != "" {
			l.removeRepeated()
			return nil
		}
		params = append(append([]byte(`{"cursor":`), cursor...), '}')
	}
}

// add adds copies of the entries of a page, which share the memory of the page. It leaves out
// those that exceed a limit or are not valid, and repairs those that can be.
func (l *list) add(entries []listed, limits *client.Limits) error {
	for _, entry := range entries {
		err := limits.CheckEntry(entry.kind, entry.definition)
		var repairs []string
		if err == nil {
			entry.definition, repairs, err = entrycheck.Entry(entry.kind, entry.definition)
		}
		if err != nil {
			l.refused.add(fmt.Errorf("the %v %+.256q: %w", entry.kind, entry.name, err))
			continue
		}
		if len(repairs) > 0 {
			l.repaired.add(fmt.Errorf("the %v %+.256q: %s", entry.kind, entry.name, strings.Join(repairs, "; ")))
		}
		if l.size+len(entry.definition) > limits.CatalogBytes {
			return catalogTooLarge(limits)
		}
		l.size += len(entry.definition)
		entry.definition = bytes.Clone(entry.definition)
		l.entries = append(l.entries, entry)
	}
	return nil
}

// maxReports is how many reports are kept for a server.
const maxReports = 100

// reports say why entries are not offered, or what was repaired.
type reports struct {
	errs []error // the first ones
	more int     // how many others there are
}

// add adds reports.
func (r *reports) add(errs ...error) {
	kept := min(len(errs), maxReports-len(r.errs))
	r.errs = append(r.errs, errs[:kept]...)
	r.more += len(errs) - kept
}

// join adds the reports of other.
func (r *reports) join(other reports) {
	r.add(other.errs...)
	r.more += other.more
}

// all returns the reports. If there are more than maxReports, the last error has their number, with what they say.
func (r *reports) all(what string) []error {
	if r.more == 0 {
		return r.errs
	}
	return append(slices.Clip(r.errs), fmt.Errorf("%d more entries %s", r.more, what))
}

func (r *reports) isSame(other *reports) bool {
	return r.more == other.more && slices.EqualFunc(r.errs, other.errs, func(a, b error) bool { return a.Error() == b.Error() })
}

func catalogTooLarge(limits *client.Limits) error {
	return &mcp.LimitError{
		Limit: "CatalogBytes", Max: limits.CatalogBytes,
		Reason: fmt.Sprintf("the lists of the server have more than %d bytes", limits.CatalogBytes),
	}
}

// removeRepeated removes entries of a server that sends the same page again and again.
func (l *list) removeRepeated() {
	seen := make(map[string]bool, len(l.entries))
	l.entries = slices.DeleteFunc(l.entries, func(entry listed) bool {
		repeated := seen[string(entry.definition)]
		seen[string(entry.definition)] = true
		if repeated {
			l.size -= len(entry.definition)
		}
		return repeated
	})
}

// orOld returns l if it is complete, and otherwise old with the error of l, unless l has more
// entries. old is nil if the list has not been read before. room is the most bytes of definitions
// that the result may have.
func (l *list) orOld(old *list, room int, limits *client.Limits) *list {
	if l.size > room {
		l = &list{bridges: l.bridges, warnings: l.warnings, err: catalogTooLarge(limits)}
	}
	if l.err == nil || old == nil || old.size > room || old.err != nil && len(old.entries) < len(l.entries) {
		return l
	}
	kept := *old
	kept.err, kept.ttl, kept.warnings, kept.bridges = l.err, 0, l.warnings, slices.Clone(old.bridges)
	kept.bridges = appendBridges(kept.bridges, l.bridges)
	return &kept
}

func (l *list) addTTL(raw json.RawMessage) {
	ms, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || ms <= 0 || ms > int64(24*time.Hour/time.Millisecond) {
		return
	}
	if ttl := time.Duration(ms) * time.Millisecond; l.ttl == 0 || ttl < l.ttl {
		l.ttl = ttl
	}
}

// appendEntries appends the entries of one page, which is an array or null. It returns an error for
// each element that is not an object with a name.
func appendEntries(entries []listed, m *listMethod, page json.RawMessage) (all []listed, invalid []error, err error) {
	if jsonscan.KindOf(page) == jsonscan.Null {
		return entries, nil, nil
	}
	s := jsonscan.New(page)
	if err := s.EnterArray(); err != nil {
		return nil, nil, err
	}
	for i := 0; ; i++ {
		more, err := s.Element(i == 0)
		if err != nil || !more {
			return entries, invalid, err
		}
		entry, err := s.Value()
		if err != nil {
			return nil, nil, err
		}
		object, err := jsonscan.ReadObject(entry)
		if err != nil {
			invalid = append(invalid, fmt.Errorf("%s: the entry %d of a page: %w", m.method, i, err))
			continue
		}
		named := object.Get(m.nameMember)
		if jsonscan.KindOf(named) != jsonscan.String || len(named) == len(`""`) {
			invalid = append(invalid, fmt.Errorf("%s: the entry %d of a page has no %s", m.method, i, m.nameMember))
			continue
		}
		entries = append(entries, listed{m.kind, jsonscan.Unquote(named), entry})
	}
}

// maxBridges is how many bridges a server can report. The rest is ignored.
const maxBridges = 256

// addBridges adds the ids of bridges in the _meta of a list.
func (l *list) addBridges(meta mcp.Meta) {
	var ids []string
	if json.Unmarshal(meta.Get(mcp.MetaBridges), &ids) == nil {
		l.bridges = appendBridges(l.bridges, ids)
	}
}

// appendBridges appends the ids that are valid and new.
func appendBridges(to, ids []string) []string {
	for _, id := range ids {
		if len(id) <= maxBridgeID && len(to) < maxBridges && !slices.Contains(to, id) {
			to = append(to, id)
		}
	}
	return to
}

// maxBridgeID is the length of the longest id of a bridge, in bytes.
const maxBridgeID = 64
