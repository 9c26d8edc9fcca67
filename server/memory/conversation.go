package memory

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"strings"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

const (
	conversationTemplate = "memory://conversations/{id}"
	// emptyConversation is what a conversation holds that does not exist.
	emptyConversation = "[]"
	// maxCompletions is how many ids are offered to a person who types one.
	maxCompletions = 100
)

func (k *keeper) addConversations() {
	server.AddTool(k.server, server.Tool{
		Name: "save_conversation", Title: "Save conversation",
		Description: "Save a snapshot of a conversation under an id, in place of the one that was saved under it before.",
		Annotations: replaces(),
	}, k.saveConversation)
	server.AddTool(k.server, server.Tool{
		Name: "get_conversation", Title: "Get conversation",
		Description: "Get the snapshot of a conversation that was saved last.",
		Annotations: reads(),
	}, k.conversation)
	server.AddTool(k.server, server.Tool{
		Name: "list_conversations", Title: "List conversations",
		Description: "List the ids of saved conversations in alphabetical order, by pages.",
		Annotations: reads(),
	}, k.listConversations)
	server.AddTool(k.server, server.Tool{
		Name: "delete_conversation", Title: "Delete conversation",
		Description: "Delete a conversation for good.",
		Annotations: replaces(),
	}, k.deleteConversation)
	server.AddTemplate(k.server, server.Template{
		URITemplate: conversationTemplate, Name: "conversation", Title: "Conversation",
		Description: "The snapshot of a conversation that was saved last, as JSON.",
		MIMEType:    "application/json",
	}, k.readConversation)
	server.AddCompletion(k.server, server.Completion{Template: conversationTemplate, Argument: "id"}, k.completeConversation)
}

// conversationURI is what the template expands to (RFC 6570, section 3.2.2): all but
// unreserved characters are percent-encoded.
func conversationURI(id string) string {
	return "memory://conversations/" + strings.ReplaceAll(url.QueryEscape(id), "+", "%20")
}

func (k *keeper) conversations(r *server.Request) Collection {
	return Collection{Owner: k.owner(r), Kind: Conversations}
}

type conversationIn struct {
	ID string `json:"conversation_id" jsonschema:"minLength=1" jsonschema_description:"the conversation's id"`
}

type saveConversationIn struct {
	ID       string `json:"conversation_id" jsonschema:"minLength=1" jsonschema_description:"the conversation's id"`
	Snapshot string `json:"snapshot" jsonschema_description:"all that is to be kept of the conversation: JSON as text, or any other text"`
}

type savedConversation struct {
	Saved bool   `json:"saved"`
	ID    string `json:"conversation_id"`
}

func (k *keeper) saveConversation(ctx context.Context, r *server.Request, in saveConversationIn) (savedConversation, error) {
	if err := k.checkName("conversation_id", in.ID); err != nil {
		return savedConversation{}, err
	}
	if err := checkLength("snapshot", in.Snapshot, k.options.MaxSnapshot); err != nil {
		return savedConversation{}, err
	}
	if err := k.store.Save(ctx, k.conversations(r), Record{Key: in.ID, Value: asJSON(in.Snapshot)}); err != nil {
		return savedConversation{}, err
	}
	k.updated(r, in.ID)
	return savedConversation{Saved: true, ID: in.ID}, nil
}

// asJSON is a snapshot that is JSON as it is, byte for byte, and any other as a
// string.
func asJSON(snapshot string) string {
	if jsonscan.Valid([]byte(snapshot)) == nil {
		return snapshot
	}
	return string(jsonscan.AppendString(nil, snapshot))
}

type foundConversation struct {
	ID       string          `json:"conversation_id"`
	Found    bool            `json:"found"`
	Snapshot json.RawMessage `json:"snapshot,omitzero" jsonschema_description:"what was saved; absent when nothing was"`
}

func (k *keeper) conversation(ctx context.Context, r *server.Request, in conversationIn) (foundConversation, error) {
	if err := k.checkName("conversation_id", in.ID); err != nil {
		return foundConversation{}, err
	}
	snapshot, err := k.store.Load(ctx, k.conversations(r), in.ID)
	switch {
	case errors.Is(err, ErrNotFound):
		return foundConversation{ID: in.ID}, nil
	case err != nil:
		return foundConversation{}, err
	}
	return foundConversation{ID: in.ID, Found: true, Snapshot: json.RawMessage(snapshot)}, nil
}

type listConversationsIn struct {
	Prefix string `json:"prefix,omitempty" jsonschema_description:"only ids that begin with this"`
	After  string `json:"after,omitempty" jsonschema_description:"only ids behind this one: the next of the page before"`
	Limit  int    `json:"limit,omitempty" jsonschema:"default=100,minimum=1,maximum=1000" jsonschema_description:"how many ids at most"`
}

type listedConversations struct {
	IDs  []string `json:"conversation_ids"`
	Next string   `json:"next,omitempty" jsonschema_description:"there are more: list again, after this"`
}

func (k *keeper) listConversations(ctx context.Context, r *server.Request, in listConversationsIn) (listedConversations, error) {
	if err := errors.Join(checkLength("prefix", in.Prefix, k.options.MaxName), checkLength("after", in.After, k.options.MaxName)); err != nil {
		return listedConversations{}, err
	}
	records, err := k.store.List(ctx, k.conversations(r), Query{Prefix: in.Prefix, After: in.After, Limit: in.Limit + 1})
	if err != nil {
		return listedConversations{}, err
	}
	var listed listedConversations
	if len(records) > in.Limit {
		records = records[:in.Limit]
		listed.Next = records[in.Limit-1].Key
	}
	listed.IDs = keys(records)
	return listed, nil
}

func keys(records []Record) []string {
	keys := make([]string, len(records))
	for i, record := range records {
		keys[i] = record.Key
	}
	return keys
}

type deletedConversation struct {
	Deleted bool   `json:"deleted" jsonschema_description:"false: there was none"`
	ID      string `json:"conversation_id"`
}

func (k *keeper) deleteConversation(ctx context.Context, r *server.Request, in conversationIn) (deletedConversation, error) {
	if err := k.checkName("conversation_id", in.ID); err != nil {
		return deletedConversation{}, err
	}
	deleted, err := k.store.Delete(ctx, k.conversations(r), in.ID)
	if err != nil {
		return deletedConversation{}, err
	}
	if deleted {
		k.updated(r, in.ID)
	}
	return deletedConversation{Deleted: deleted, ID: in.ID}, nil
}

type conversationVars struct {
	ID string `json:"id"`
}

func (k *keeper) readConversation(ctx context.Context, r *server.Request, vars conversationVars) (string, error) {
	err := ErrNotFound // of an id that nothing can be saved under
	snapshot := ""
	if k.checkName("id", vars.ID) == nil {
		snapshot, err = k.store.Load(ctx, k.conversations(r), vars.ID)
	}
	switch {
	case err == nil:
		return snapshot, nil
	case !errors.Is(err, ErrNotFound):
		return "", err
	case k.options.MissingIsError:
		return "", mcp.ResourceNotFound(conversationURI(vars.ID))
	}
	return emptyConversation, nil
}

// completeConversation completes an id. One more than can be offered is asked for:
// so the person is told that there are more.
func (k *keeper) completeConversation(ctx context.Context, r *server.Request, typed string, _ map[string]string) ([]string, error) {
	records, err := k.store.List(ctx, k.conversations(r), Query{Prefix: typed, Limit: maxCompletions + 1})
	return keys(records), err
}
