package memory

import (
	"context"

	"github.com/dovetail-go/dovetail/server"
)

func (k *keeper) addFacts() {
	server.AddTool(k.server, server.Tool{
		Name: "save_user_fact", Title: "Save user fact",
		Description: "Save a fact about a user under a key, in place of the one that was saved under it before.",
		Annotations: replaces(),
	}, k.saveFact)
	server.AddTool(k.server, server.Tool{
		Name: "get_user_facts", Title: "Get user facts",
		Description: "Get all facts about a user, in alphabetical order of their keys.",
		Annotations: reads(),
	}, k.facts)
	server.AddTool(k.server, server.Tool{
		Name: "delete_user_fact", Title: "Delete user fact",
		Description: "Delete a fact about a user for good.",
		Annotations: replaces(),
	}, k.deleteFact)
}

// factsAbout is where the facts about a user are.
func (k *keeper) factsAbout(r *server.Request, user string) Collection {
	return Collection{Owner: k.owner(r), Kind: Facts, User: user}
}

type userIn struct {
	User string `json:"user_id" jsonschema:"minLength=1" jsonschema_description:"whom the facts are about"`
}

type factIn struct {
	User string `json:"user_id" jsonschema:"minLength=1" jsonschema_description:"whom the fact is about"`
	Key  string `json:"key" jsonschema:"minLength=1" jsonschema_description:"what the fact is about, such as preferred_language"`
}

type saveFactIn struct {
	User  string `json:"user_id" jsonschema:"minLength=1" jsonschema_description:"whom the fact is about"`
	Key   string `json:"key" jsonschema:"minLength=1" jsonschema_description:"what the fact is about, such as preferred_language"`
	Value string `json:"value" jsonschema_description:"the fact"`
}

type savedFact struct {
	Saved bool   `json:"saved"`
	User  string `json:"user_id"`
	Key   string `json:"key"`
}

func (k *keeper) saveFact(ctx context.Context, r *server.Request, in saveFactIn) (savedFact, error) {
	if err := k.checkFact(in.User, in.Key); err != nil {
		return savedFact{}, err
	}
	if err := checkLength("value", in.Value, k.options.MaxValue); err != nil {
		return savedFact{}, err
	}
	if err := k.store.Save(ctx, k.factsAbout(r, in.User), Record{Key: in.Key, Value: in.Value}); err != nil {
		return savedFact{}, err
	}
	return savedFact{Saved: true, User: in.User, Key: in.Key}, nil
}

func (k *keeper) facts(ctx context.Context, r *server.Request, in userIn) ([]Record, error) {
	if err := k.checkName("user_id", in.User); err != nil {
		return nil, err
	}
	return k.store.List(ctx, k.factsAbout(r, in.User), Query{Values: true})
}

type deletedFact struct {
	Deleted bool   `json:"deleted" jsonschema_description:"false: there was none"`
	User    string `json:"user_id"`
	Key     string `json:"key"`
}

func (k *keeper) deleteFact(ctx context.Context, r *server.Request, in factIn) (deletedFact, error) {
	if err := k.checkFact(in.User, in.Key); err != nil {
		return deletedFact{}, err
	}
	deleted, err := k.store.Delete(ctx, k.factsAbout(r, in.User), in.Key)
	if err != nil {
		return deletedFact{}, err
	}
	return deletedFact{Deleted: deleted, User: in.User, Key: in.Key}, nil
}

func (k *keeper) checkFact(user, key string) error {
	if err := k.checkName("user_id", user); err != nil {
		return err
	}
	return k.checkName("key", key)
}
