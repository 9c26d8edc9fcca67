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
	// emptyConversation is the content of a conversation that does not exist.
	emptyConversation = "[]"
	// maxCompletions is the number of ids in one completion.
	maxCompletions = 100
)

// readOnly returns the annotations of a tool that changes nothing.
func readOnly() *mcp.ToolAnnotations {
	return &mcp.ToolAnnotations{ReadOnlyHint: new(true), OpenWorldHint: new(false)}
}

// destructive returns the annotations of a tool that replaces or deletes records.
func destructive() *mcp.ToolAnnotations {
	return &mcp.ToolAnnotations{
		ReadOnlyHint: new(false), DestructiveHint: new(true), IdempotentHint: new(true), OpenWorldHint: new(false),
	}
}

func addTool[In, Out any](m *memoryServer, name, title string, annotations *mcp.ToolAnnotations, handle func(context.Context, *server.Request, In) (Out, error), description string) {
	server.AddTool(m.server, server.Tool{Name: name, Title: title, Description: description, Annotations: annotations}, handle)
}

func (m *memoryServer) addConversations() {
	addTool(m, "save_conversation", "Save conversation", destructive(), m.saveConversation,
		"Save a snapshot of a conversation under an id. It replaces an earlier snapshot with the same id.")
	addTool(m, "get_conversation", "Get conversation", readOnly(), m.getConversation,
		"Get the saved snapshot of a conversation.")
	addTool(m, "list_conversations", "List conversations", readOnly(), m.listConversations,
		"List the ids of saved conversations in alphabetical order, in pages.")
	addTool(m, "delete_conversation", "Delete conversation", destructive(), m.deleteConversation,
		"Delete a conversation permanently.")
	server.AddTemplate(m.server, server.Template{
		URITemplate: conversationTemplate, Name: "conversation", Title: "Conversation",
		Description: "The saved snapshot of a conversation, as JSON.",
		MIMEType:    "application/json",
	}, m.readConversation)
	server.AddCompletion(m.server, server.Completion{Template: conversationTemplate, Argument: "id"}, m.completeConversation)
}

// conversationURI expands conversationTemplate: RFC 6570, section 3.2.2.
func conversationURI(id string) string {
	return "memory://conversations/" + strings.ReplaceAll(url.QueryEscape(id), "+", "%20")
}

func (m *memoryServer) conversations(r *server.Request) Collection {
	return Collection{Owner: m.owner(r), Kind: Conversations}
}

// notifyUpdated notifies the subscribers of a conversation that was saved or deleted.
func (m *memoryServer) notifyUpdated(r *server.Request, id string) {
	m.server.ResourceUpdatedFor(m.owner(r), conversationURI(id))
}

type conversationID struct {
	ID string `json:"conversation_id" jsonschema:"minLength=1" jsonschema_description:"the id of the conversation"`
}

type saveConversationIn struct {
	conversationID
	Snapshot string `json:"snapshot" jsonschema_description:"everything to save of the conversation: JSON as text, or any other text"`
}

type saveConversationOut struct {
	Saved bool `json:"saved"`
	conversationID
}

func (m *memoryServer) saveConversation(ctx context.Context, r *server.Request, in saveConversationIn) (out saveConversationOut, err error) {
	if err := m.checkName("conversation_id", in.ID); err != nil {
		return out, err
	}
	if err := checkLength("snapshot", in.Snapshot, m.options.MaxSnapshot); err != nil {
		return out, err
	}
	if err := m.store.Save(ctx, m.conversations(r), Record{Key: in.ID, Value: asJSON(in.Snapshot)}); err != nil {
		return out, err
	}
	m.notifyUpdated(r, in.ID)
	return saveConversationOut{true, in.conversationID}, nil
}

// asJSON returns a snapshot unchanged if it is JSON, and otherwise as a JSON string.
func asJSON(snapshot string) string {
	if jsonscan.Valid([]byte(snapshot)) == nil {
		return snapshot
	}
	return string(jsonscan.AppendString(nil, snapshot))
}

type getConversationOut struct {
	conversationID
	Found    bool            `json:"found"`
	Snapshot json.RawMessage `json:"snapshot,omitzero" jsonschema_description:"the saved snapshot; absent if there is none"`
}

func (m *memoryServer) getConversation(ctx context.Context, r *server.Request, in conversationID) (out getConversationOut, err error) {
	if err := m.checkName("conversation_id", in.ID); err != nil {
		return out, err
	}
	snapshot, err := m.store.Load(ctx, m.conversations(r), in.ID)
	if errors.Is(err, ErrNotFound) {
		return getConversationOut{conversationID: in}, nil
	}
	return getConversationOut{in, true, json.RawMessage(snapshot)}, err
}

type listConversationsIn struct {
	Prefix string `json:"prefix,omitempty" jsonschema_description:"return only ids that begin with this"`
	After  string `json:"after,omitempty" jsonschema_description:"return only ids after this one: next of the previous page"`
	Limit  int    `json:"limit,omitempty" jsonschema:"default=100,minimum=1,maximum=1000" jsonschema_description:"the maximum number of ids"`
}

type listConversationsOut struct {
	IDs  []string `json:"conversation_ids"`
	Next string   `json:"next,omitempty" jsonschema_description:"present if there are more ids: pass it as after"`
}

func (m *memoryServer) listConversations(ctx context.Context, r *server.Request, in listConversationsIn) (out listConversationsOut, err error) {
	if err := errors.Join(checkLength("prefix", in.Prefix, m.options.MaxName), checkLength("after", in.After, m.options.MaxName)); err != nil {
		return out, err
	}
	records, err := m.store.List(ctx, m.conversations(r), Query{Prefix: in.Prefix, After: in.After, Limit: in.Limit + 1})
	if err != nil {
		return out, err
	}
	if len(records) > in.Limit {
		records = records[:in.Limit]
		out.Next = records[in.Limit-1].Key
	}
	out.IDs = keys(records)
	return out, nil
}

func keys(records []Record) []string {
	keys := make([]string, len(records))
	for i, record := range records {
		keys[i] = record.Key
	}
	return keys
}

type deleteConversationOut struct {
	Deleted bool `json:"deleted" jsonschema_description:"false if it did not exist"`
	conversationID
}

func (m *memoryServer) deleteConversation(ctx context.Context, r *server.Request, in conversationID) (out deleteConversationOut, err error) {
	if err := m.checkName("conversation_id", in.ID); err != nil {
		return out, err
	}
	deleted, err := m.store.Delete(ctx, m.conversations(r), in.ID)
	if deleted && err == nil {
		m.notifyUpdated(r, in.ID)
	}
	return deleteConversationOut{deleted, in}, err
}

type conversationVariables struct {
	ID string `json:"id"`
}

func (m *memoryServer) readConversation(ctx context.Context, r *server.Request, in conversationVariables) (string, error) {
	snapshot, err := "", ErrNotFound // an invalid id has no conversation
	if m.checkName("id", in.ID) == nil {
		snapshot, err = m.store.Load(ctx, m.conversations(r), in.ID)
	}
	switch {
	case err == nil:
		return snapshot, nil
	case !errors.Is(err, ErrNotFound):
		return "", err
	case m.options.MissingIsError:
		return "", mcp.ResourceNotFound(conversationURI(in.ID))
	}
	return emptyConversation, nil
}

// completeConversation returns one id more than a completion holds, so that the server reports
// that there are more.
func (m *memoryServer) completeConversation(ctx context.Context, r *server.Request, typed string, _ map[string]string) ([]string, error) {
	records, err := m.store.List(ctx, m.conversations(r), Query{Prefix: typed, Limit: maxCompletions + 1})
	return keys(records), err
}

func (m *memoryServer) addFacts() {
	addTool(m, "save_user_fact", "Save user fact", destructive(), m.saveFact,
		"Save a fact about a user under a key. It replaces an earlier fact with the same key.")
	addTool(m, "get_user_facts", "Get user facts", readOnly(), m.getFacts,
		"Get all facts about a user, in alphabetical order of their keys.")
	addTool(m, "delete_user_fact", "Delete user fact", destructive(), m.deleteFact,
		"Delete a fact about a user permanently.")
}

func (m *memoryServer) facts(r *server.Request, user string) Collection {
	return Collection{Owner: m.owner(r), Kind: Facts, User: user}
}

type userID struct {
	User string `json:"user_id" jsonschema:"minLength=1" jsonschema_description:"the user whom the fact is about"`
}

type factID struct {
	userID
	Key string `json:"key" jsonschema:"minLength=1" jsonschema_description:"the subject of the fact, such as preferred_language"`
}

type saveFactIn struct {
	factID
	Value string `json:"value" jsonschema_description:"the fact"`
}

type saveFactOut struct {
	Saved bool `json:"saved"`
	factID
}

func (m *memoryServer) saveFact(ctx context.Context, r *server.Request, in saveFactIn) (out saveFactOut, err error) {
	if err := m.checkFact(in.factID); err != nil {
		return out, err
	}
	if err := checkLength("value", in.Value, m.options.MaxValue); err != nil {
		return out, err
	}
	err = m.store.Save(ctx, m.facts(r, in.User), Record{Key: in.Key, Value: in.Value})
	return saveFactOut{true, in.factID}, err
}

func (m *memoryServer) getFacts(ctx context.Context, r *server.Request, in userID) ([]Record, error) {
	if err := m.checkName("user_id", in.User); err != nil {
		return nil, err
	}
	return m.store.List(ctx, m.facts(r, in.User), Query{Values: true})
}

type deleteFactOut struct {
	Deleted bool `json:"deleted" jsonschema_description:"false if it did not exist"`
	factID
}

func (m *memoryServer) deleteFact(ctx context.Context, r *server.Request, in factID) (out deleteFactOut, err error) {
	if err := m.checkFact(in); err != nil {
		return out, err
	}
	deleted, err := m.store.Delete(ctx, m.facts(r, in.User), in.Key)
	return deleteFactOut{deleted, in}, err
}

func (m *memoryServer) checkFact(id factID) error {
	if err := m.checkName("user_id", id.User); err != nil {
		return err
	}
	return m.checkName("key", id.Key)
}
