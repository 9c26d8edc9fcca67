package mcp

import (
	"encoding/json"
	"time"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

// ExtensionTasks identifies the extension that lets a server answer a call with a task (SEP-2663).
const ExtensionTasks = "io.modelcontextprotocol/tasks"

// Methods of [ExtensionTasks]. The params of the first three name the task, as taskId.
const (
	MethodTasksGet    = "tasks/get"
	MethodTasksUpdate = "tasks/update"
	MethodTasksCancel = "tasks/cancel"
	// MethodTasksResult waits for the result of a task (2025-11-25 only).
	MethodTasksResult = "tasks/result"

	// NotificationTasks reports the new state of a task to its subscribers. A call that runs as a task
	// sets the status message of the task if it notifies a [Task] with it; see [Call.Notify].
	NotificationTasks = "notifications/tasks"
)

// ResultTask is the type of a result that is a [Task]: the server continues the call in the background.
const ResultTask ResultType = "task"

// MetaTaskProgress is the key, in the `_meta` of a [Task], of the last progress that the task has
// reported: an object with the members progress and total of [ProgressParams]. It is defined by this
// module.
const MetaTaskProgress = "io.github.dovetail-go/progress"

// A TaskRequest says how a call continues as a task; see [InputRequired].
type TaskRequest struct {
	// TTL is how long after its start the task and its result are kept. The call is cancelled if it
	// takes longer. 0 means the default of the server. At most a year: a call that wants more fails.
	TTL time.Duration
}

// A TaskStatus is the state of a task.
type TaskStatus string

// The states of a task. A task in one of the last three has ended, and does not change any more.
const (
	// TaskWorking: the server works on the call.
	TaskWorking TaskStatus = "working"
	// TaskInputRequired: the task waits for answers of the client.
	TaskInputRequired TaskStatus = "input_required"
	// TaskCompleted: the call has a result, which may be a failure that the tool reports.
	TaskCompleted TaskStatus = "completed"
	// TaskFailed: the call has ended with a protocol error. If the error says that the call may have been
	// executed, its outcome may replace that once, when it becomes known.
	TaskFailed TaskStatus = "failed"
	// TaskCancelled: the call was cancelled before it was complete.
	TaskCancelled TaskStatus = "cancelled"
)

// Ended reports whether a task in this state does not change any more.
func (s TaskStatus) Ended() bool {
	return s == TaskCompleted || s == TaskFailed || s == TaskCancelled
}

// A Task is a call that a server continues in the background: the result of the call itself, with the
// type [ResultTask], the result of tasks/get, and the parameters of notifications/tasks. SEP-2663.
//
//codec:message
type Task struct {
	// TaskID identifies the task. It is secret: a server may accept it as an authorization.
	TaskID string     `json:"taskId"`
	Status TaskStatus `json:"status"`
	// StatusMessage describes the state for people and models, such as the progress.
	StatusMessage string `json:"statusMessage,omitzero"`
	// CreatedAt and LastUpdatedAt are times in the format of ISO 8601.
	CreatedAt     string `json:"createdAt"`
	LastUpdatedAt string `json:"lastUpdatedAt"`
	// TTLMs is how long after CreatedAt the server keeps the task, in milliseconds. nil means without
	// limit.
	TTLMs *int64 `json:"ttlMs"`
	// PollIntervalMs is how often clients should ask for the state, in milliseconds. 0 means that the
	// server has no preference.
	PollIntervalMs int64 `json:"pollIntervalMs,omitzero"`
	// InputRequests are the open questions of a task with [TaskInputRequired], by key. A key is never
	// used for two questions of one task.
	InputRequests map[string]InputRequest `json:"inputRequests,omitzero"`
	// Result is the result of the call after [TaskCompleted].
	Result json.RawMessage `json:"result,omitzero"`
	// Error is the JSON-RPC error of the call after [TaskFailed].
	Error      json.RawMessage `json:"error,omitzero"`
	ResultType ResultType      `json:"resultType,omitzero"`
	Meta       Meta            `json:"_meta,omitzero"`
	Extra      Extra           `json:",embed"`
}

// TaskParams are the parameters of tasks/get and tasks/cancel, and of tasks/update with its answers.
type TaskParams struct {
	TaskID string `json:"taskId"`
	// InputResponses are the answers to open questions by key: an [ElicitResult],
	// [CreateMessageResult] or [ListRootsResult].
	InputResponses map[string]json.RawMessage `json:"inputResponses,omitzero"`
	Meta           Meta                       `json:"_meta,omitzero"`
	Extra          Extra                      `json:",embed"`
}

// HasExtension reports whether the client has declared an extension, such as [ExtensionTasks].
func (c *ClientCapabilities) HasExtension(name string) bool {
	settings, declared := c.Extensions[name]
	return declared && jsonscan.IsPresent(settings)
}

// HasExtension reports whether the server has declared an extension, such as [ExtensionTasks].
func (s *ServerCapabilities) HasExtension(name string) bool {
	settings, declared := s.Extensions[name]
	return declared && jsonscan.IsPresent(settings)
}

// MissingExtension returns the error of a request that needs an extension which the client has not
// declared. MCP 2026-07-28, basic/versioning, "Extension Negotiation".
func MissingExtension(name string) *jsonrpc.Error {
	return &jsonrpc.Error{
		Code:    CodeMissingClientCapability,
		Message: "the client did not declare the extension " + name,
		Data:    json.RawMessage(`{"requiredCapabilities":{"extensions":{"` + name + `":{}}}}`),
	}
}
