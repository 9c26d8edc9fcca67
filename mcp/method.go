package mcp

import (
	"encoding/json"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
)

// Methods of requests from a client.
const (
	MethodInitialize            = "initialize"
	MethodDiscover              = "server/discover"
	MethodPing                  = "ping"
	MethodToolsList             = "tools/list"
	MethodToolsCall             = "tools/call"
	MethodPromptsList           = "prompts/list"
	MethodPromptsGet            = "prompts/get"
	MethodResourcesList         = "resources/list"
	MethodResourceTemplatesList = "resources/templates/list"
	MethodResourcesRead         = "resources/read"
	MethodResourcesSubscribe    = "resources/subscribe"
	MethodResourcesUnsubscribe  = "resources/unsubscribe"
	MethodSubscriptionsListen   = "subscriptions/listen"
	MethodComplete              = "completion/complete"
	MethodSetLevel              = "logging/setLevel"
	MethodSkillsList            = "skills/list"
	MethodSkillsGet             = "skills/get"
	MethodDirectoryRead         = "resources/directory/read"
)

// Methods of the extension [ExtensionEvents] (SEP-3415).
const (
	MethodEventsList        = "events/list"
	MethodEventsPoll        = "events/poll"
	MethodEventsStream      = "events/stream"
	MethodEventsSubscribe   = "events/subscribe"
	MethodEventsUnsubscribe = "events/unsubscribe"

	NotificationEventsListChanged = "notifications/events/list_changed"
	// The others are sent before the result of events/stream.
	NotificationEventActive     = "notifications/events/active"
	NotificationEvent           = "notifications/events/event"
	NotificationEventError      = "notifications/events/error"
	NotificationEventHeartbeat  = "notifications/events/heartbeat"
	NotificationEventTerminated = "notifications/events/terminated"
)

// Methods of questions from a server: requests until 2025-11-25, and parts of a result since then.
const (
	MethodCreateMessage = "sampling/createMessage"
	MethodRootsList     = "roots/list"
	MethodElicit        = "elicitation/create"
)

// Methods of notifications.
const (
	NotificationInitialized          = "notifications/initialized"
	NotificationCancelled            = "notifications/cancelled"
	NotificationProgress             = "notifications/progress"
	NotificationMessage              = "notifications/message"
	NotificationResourceUpdated      = "notifications/resources/updated"
	NotificationResourcesListChanged = "notifications/resources/list_changed"
	NotificationToolsListChanged     = "notifications/tools/list_changed"
	NotificationPromptsListChanged   = "notifications/prompts/list_changed"
	NotificationRootsListChanged     = "notifications/roots/list_changed"
	NotificationElicitationComplete  = "notifications/elicitation/complete"
	NotificationAcknowledged         = "notifications/subscriptions/acknowledged"
)

// Subject returns what a request is about: the name of a tool, prompt or event, the URI of a resource,
// skill or directory, the prompt or resource of a completion, or the id of a task. It returns "" for other
// methods, and if the params lack it. member returns a member of the params, such as the method Member of [jsonrpc.Request] and
// [Call].
func Subject(method string, member func(path ...string) json.RawMessage) string {
	switch method {
	case MethodToolsCall, MethodPromptsGet, MethodEventsPoll, MethodEventsStream, MethodEventsSubscribe, MethodEventsUnsubscribe:
		return textOf(member("name"))
	case MethodResourcesRead, MethodResourcesSubscribe, MethodResourcesUnsubscribe, MethodSkillsGet, MethodDirectoryRead:
		return textOf(member("uri"))
	case MethodTasksGet, MethodTasksUpdate, MethodTasksCancel:
		return textOf(member("taskId"))
	case MethodComplete:
		if textOf(member("ref", "type")) == RefPrompt {
			return textOf(member("ref", "name"))
		}
		return textOf(member("ref", "uri"))
	}
	return ""
}

// SubscribedURIs returns the resources that a request of subscriptions/listen names. It returns nil
// for other methods and for malformed params. member is as in [Subject].
func SubscribedURIs(method string, member func(path ...string) json.RawMessage) []string {
	if method != MethodSubscriptionsListen {
		return nil
	}
	raw := member("notifications")
	var filter SubscriptionFilter
	if jsonscan.KindOf(raw) != jsonscan.Object || filter.UnmarshalJSON(raw) != nil {
		return nil
	}
	return filter.ResourceSubscriptions
}

// textOf decodes a JSON string. It returns "" for other values.
func textOf(raw json.RawMessage) string {
	if jsonscan.KindOf(raw) != jsonscan.String {
		return ""
	}
	return jsonscan.Unquote(raw)
}
