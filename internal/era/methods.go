package era

import (
	"slices"

	"github.com/dovetail-go/dovetail/mcp"
)

// A method describes what the protocol says about one method of requests from a client. The zero value is a method
// of all versions without special results.
type method struct {
	// first and last are the versions that have the method. "" is no limit.
	first, last mcp.Version
	list        bool     // the result is a page of a list: its encoding is cached for each version
	hint        hint     // the cache hint of the results of 2026-07-28
	asks        bool     // the call may end in a question
	task        bool     // the call may continue as a task
	preempts    bool     // the request of a session does not wait for the calls that run
	changed     mcp.Kind // a change of the list of this kind makes a result stale; 0: no change does

	// The members of a result that older versions encode in another way; see [filterFor].
	entries string // an array of objects
	content string // content, of the result or of each of its entries
	object  string // a value that may only be an object until 2025-11-25, of the result or of each entry
}

// A hint is the source of the cache hint that a result without one gets.
type hint int

const (
	noHint      hint = iota
	serverHint       // the hint of the server
	privateHint      // a hint that the result must not be stored
)

// extensions has the first version of each extension that not all versions have. Tasks of 2025-11-25 are not the tasks of
// the extension.
var extensions = map[string]mcp.Version{
	mcp.ExtensionTasks:  mcp.Version20260728,
	mcp.ExtensionSkills: mcp.Version20260728,
	mcp.ExtensionEvents: mcp.Version20260728,
}

// methods describes the methods of requests from a client. The core decides about methods that are not in the table.
var methods = map[string]method{
	// The session; handleModern and handleLegacy answer these.
	mcp.MethodInitialize:           {last: mcp.LatestLegacyVersion, preempts: true},
	mcp.MethodPing:                 {last: mcp.LatestLegacyVersion, preempts: true},
	mcp.MethodSetLevel:             {last: mcp.LatestLegacyVersion, preempts: true},
	mcp.MethodResourcesSubscribe:   {last: mcp.LatestLegacyVersion},
	mcp.MethodResourcesUnsubscribe: {last: mcp.LatestLegacyVersion},
	mcp.MethodDiscover:             {first: mcp.Version20260728, hint: serverHint},
	mcp.MethodSubscriptionsListen:  {first: mcp.Version20260728},

	mcp.MethodToolsList:             {list: true, hint: serverHint, changed: mcp.KindTool, entries: "tools", object: memberOutputSchema},
	mcp.MethodToolsCall:             {asks: true, task: true, content: "content", object: memberStructured},
	mcp.MethodPromptsList:           {list: true, hint: serverHint, changed: mcp.KindPrompt, entries: "prompts"},
	mcp.MethodPromptsGet:            {asks: true, entries: "messages", content: "content"},
	mcp.MethodResourcesList:         {list: true, hint: serverHint, changed: mcp.KindResource, entries: "resources"},
	mcp.MethodResourceTemplatesList: {list: true, hint: serverHint, changed: mcp.KindResource, entries: "resourceTemplates"},
	mcp.MethodResourcesRead:         {asks: true, hint: privateHint},
	mcp.MethodComplete:              {},

	mcp.MethodTasksGet:    {first: mcp.Version20251125},
	mcp.MethodTasksCancel: {first: mcp.Version20251125},
	mcp.MethodTasksUpdate: {first: mcp.Version20260728},
	mcp.MethodTasksResult: {first: mcp.Version20251125, last: mcp.Version20251125},

	mcp.MethodSkillsList:    {first: mcp.Version20260728, list: true, hint: serverHint, changed: mcp.KindResource},
	mcp.MethodSkillsGet:     {first: mcp.Version20260728, hint: privateHint, changed: mcp.KindResource},
	mcp.MethodDirectoryRead: {first: mcp.Version20260728, changed: mcp.KindResource},

	mcp.MethodEventsList:        {first: mcp.Version20260728, list: true, hint: serverHint, changed: mcp.KindEvent},
	mcp.MethodEventsPoll:        {first: mcp.Version20260728},
	mcp.MethodEventsStream:      {first: mcp.Version20260728},
	mcp.MethodEventsSubscribe:   {first: mcp.Version20260728},
	mcp.MethodEventsUnsubscribe: {first: mcp.Version20260728},
}

// in reports whether a version has the method.
func (m method) in(version mcp.Version) bool {
	return m.first <= version && (m.last == "" || version <= m.last)
}

// MayAsk reports whether calls of a method may end in a question.
func MayAsk(method string) bool { return methods[method].asks }

// IsHandshake reports whether a client begins a connection with requests and notifications of a method.
func IsHandshake(method string) bool {
	return method == mcp.MethodInitialize || method == mcp.MethodDiscover || method == mcp.NotificationInitialized
}

// IsStale reports whether a change of the list of a kind makes results of a method stale.
func IsStale(method string, changed mcp.Kind) bool {
	kind := methods[method].changed
	return kind != 0 && kind == notified(changed)
}

// listNotifications has the notification of changes to the list of each kind. Kinds without one change together with
// resources.
var listNotifications = [...]string{
	mcp.KindTool:     mcp.NotificationToolsListChanged,
	mcp.KindPrompt:   mcp.NotificationPromptsListChanged,
	mcp.KindResource: mcp.NotificationResourcesListChanged,
	mcp.KindEvent:    mcp.NotificationEventsListChanged,
}

// notified returns the kind whose notification reports a change to the list of a kind.
func notified(kind mcp.Kind) mcp.Kind {
	if int(kind) < len(listNotifications) && listNotifications[kind] != "" {
		return kind
	}
	return mcp.KindResource
}

// changedList returns the kind whose lists a notification reports as changed, or 0.
func changedList(notification string) mcp.Kind {
	return mcp.Kind(max(0, slices.Index(listNotifications[:], notification)))
}
