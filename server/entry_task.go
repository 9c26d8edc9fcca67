package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"time"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/internal/token"
	"github.com/dovetail-go/dovetail/mcp"
)

// Tasks that an entry keeps itself, at another server. The client gets an id that contains the id of the
// entry, sealed, so that nothing is stored for such a task.

// maxEntryTaskID is the maximum length in bytes of the id that an entry gives to a task. The id for the
// client is longer by about a third, and fits into an HTTP header.
const maxEntryTaskID = 4 << 10

// An entryTask is what the id of a task contains that an entry keeps.
type entryTask struct {
	Entry  string `json:"entry"`  // its name
	Origin []byte `json:"origin"` // digest of its origin
	ID     string `json:"id"`     // the id that the entry has given to the task
}

// taskOrigin returns the digest of an origin. A task id is not sent to another server that has taken the
// name of an entry.
func taskOrigin(o *mcp.Origin) []byte {
	digest := sha256.Sum256(token.Binding("origin of a task", o.Server, o.Name, o.Launch))
	return digest[:16]
}

func entryTaskBinding(caller *mcp.Caller) []byte {
	return token.Binding("task of an entry", caller.Principal)
}

// sealTask returns the task of an entry with the id for the caller of the call.
func (s *Server) sealTask(ctx context.Context, call *mcp.Call, entry *Entry, t *mcp.Task) (mcp.Result, error) {
	switch {
	case call.Method() != mcp.MethodToolsCall || entry.Tasks == nil:
		return nil, errors.New("an entry without Tasks returned a task")
	case call.TaskID() != "":
		return nil, errors.New("the entry returned a task although the call runs as one")
	case !call.Caller.Capabilities.HasExtension(mcp.ExtensionTasks):
		return nil, errors.New("the entry returned a task to a caller that does not support tasks")
	case t.TaskID == "" || len(t.TaskID) > maxEntryTaskID:
		return nil, errors.New("the entry returned a task with an id that is empty or too long")
	}
	ring, err := s.taskKeys(ctx)
	if err != nil {
		return nil, err
	}
	content, err := json.Marshal(entryTask{entry.Name, taskOrigin(&entry.Origin), t.TaskID})
	if err != nil {
		return nil, err
	}
	kept := maxTTL
	if t.TTLMs != nil && *t.TTLMs < maxTTL.Milliseconds() {
		kept = max(0, time.Duration(*t.TTLMs)*time.Millisecond) + clockDifference
	}
	shared := *t
	shared.TaskID, err = ring.Seal(content, entryTaskBinding(call.Caller), time.Now().Add(kept))
	return &shared, err
}

// clockDifference is by how much the clocks of two servers may differ.
const clockDifference = time.Minute

// openTask returns the entry that keeps a task, and the id that the entry has given to the task. The entry is
// nil if no entry keeps it, or if the caller must not see the entry now. sealed reports whether the id
// was made by sealTask.
func (s *Server) openTask(ctx context.Context, caller *mcp.Caller, id string) (entry *Entry, inner string, sealed bool, err error) {
	ring, err := s.taskKeys(ctx)
	if err != nil {
		return nil, "", false, err
	}
	content, err := ring.Open(id, entryTaskBinding(caller), time.Now())
	if err != nil {
		return nil, "", errors.Is(err, token.ErrExpired), nil
	}
	var kept entryTask
	if err := json.Unmarshal(content, &kept); err != nil {
		return nil, "", true, err
	}
	entry = s.Catalog().Lookup(mcp.KindTool, kept.Entry)
	if entry == nil {
		if entry, err = s.resolveUnlisted(ctx, mcp.KindTool, kept.Entry); err != nil {
			return nil, "", true, err
		}
	}
	if entry == nil || entry.Tasks == nil || !bytes.Equal(taskOrigin(&entry.Origin), kept.Origin) ||
		entry.Visible != nil && !entry.Visible(ctx, caller) {
		return nil, "", true, nil
	}
	return entry, kept.ID, true, nil
}

// answerEntryTask passes a request about a task to the entry that keeps the task. In the result, the id of
// the entry is replaced by the id for the caller; all other bytes stay unchanged.
func (s *Server) answerEntryTask(ctx context.Context, call *mcp.Call, entry *Entry, inner string) (mcp.Result, error) {
	params, err := jsonscan.Splice(nil, call.Params(), jsonscan.Edit{Name: "taskId", Value: jsonscan.AppendString(nil, inner)})
	if err != nil {
		return nil, err
	}
	entered, err := call.Enter(&entry.Target, params, s.recheckFunc)
	if err != nil {
		return nil, err
	}
	result, err := entry.Tasks(ctx, entered)
	if err != nil {
		return nil, err
	}
	raw, ok := result.(mcp.Raw)
	if !ok {
		if raw, err = result.AppendJSON(nil); err != nil {
			return nil, err
		}
	}
	members, err := jsonscan.ReadObject(raw)
	if err != nil || members.Get("taskId") == nil {
		return raw, err
	}
	replaced, err := jsonscan.Splice(nil, raw, jsonscan.Edit{Name: "taskId", Value: call.Member("taskId")})
	return mcp.Raw(replaced), err
}
