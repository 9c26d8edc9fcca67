package server_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
)

// answer is a user who fills in every form in the same way.
func answer(action mcp.ElicitAction, content string) func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	return func(_ context.Context, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		fmt.Println("asked:", params.Message)
		if action != mcp.ElicitAccept {
			return &mcp.ElicitResult{Action: action}, nil
		}
		return &mcp.ElicitResult{Action: action, Content: []byte(content)}, nil
	}
}

// A function asks the user. It returns the error of Elicit, and runs again with the answer.
func ExampleElicit() {
	type Loaves struct {
		Count int `json:"count" jsonschema:"minimum=1,maximum=12"`
	}
	s := server.New(mcp.Implementation{Name: "bakery", Version: "1.0.0"}, nil)
	server.AddTool(s, server.Tool{Name: "order"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
		loaves, err := server.Elicit[Loaves](r, "loaves", "How many loaves?")
		if _, ok := errors.AsType[*server.DeclinedError](err); ok {
			return "nothing then", nil
		}
		if err != nil {
			return "", err
		}
		return fmt.Sprint(loaves.Count, " loaves"), nil
	})

	hungry := dial(s, &client.Options{Elicit: answer(mcp.ElicitAccept, `{"count":3}`)})
	defer hungry.Close()
	say(hungry, "order", nil)

	full := dial(s, &client.Options{Elicit: answer(mcp.ElicitDecline, "")})
	defer full.Close()
	say(full, "order", nil)
	// Output:
	// asked: How many loaves?
	// 3 loaves
	// asked: How many loaves?
	// nothing then
}

// Code before a question runs again in each run of the function. Once charges the card in the first run
// only. The call's id, which is the same in all its runs, is the idempotency key of the payment.
func ExampleOnce() {
	type Receipt struct {
		Email string `json:"email" jsonschema:"format=email"`
	}
	charge := func(key string) (int, error) {
		fmt.Println("the card is charged:", key != "")
		return 1, nil
	}
	s := server.New(mcp.Implementation{Name: "bakery", Version: "1.0.0"}, nil)
	server.AddTool(s, server.Tool{Name: "pay"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
		fmt.Println("the function runs")
		payment, err := server.Once(r, "charge", func() (int, error) { return charge(r.Call().ID()) })
		if err != nil {
			return "", err
		}
		to, err := server.Elicit[Receipt](r, "receipt", "Where should the receipt go?")
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("receipt of payment %d sent to %s", payment, to.Email), nil
	})
	session := dial(s, &client.Options{Elicit: answer(mcp.ElicitAccept, `{"email":"ada@example.com"}`)})
	defer session.Close()
	say(session, "pay", nil)
	// Output:
	// the function runs
	// the card is charged: true
	// asked: Where should the receipt go?
	// the function runs
	// receipt of payment 1 sent to ada@example.com
}

// The function asks in the middle of its work, far below the tool. It waits for the answer and runs once.
func ExampleTool_blocking() {
	bake := func(r *server.Request) error {
		fmt.Println("the dough is kneaded")
		hot, err := server.Elicit[bool](r, "hot", "Is the oven hot?")
		fmt.Println("the bread is in the oven:", hot)
		return err
	}
	s := server.New(mcp.Implementation{Name: "bakery", Version: "1.0.0"}, nil)
	server.AddTool(s, server.Tool{Name: "bake", Blocking: true}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
		return "bread", bake(r)
	})
	session := dial(s, &client.Options{Elicit: answer(mcp.ElicitAccept, `{"value":true}`)})
	defer session.Close()
	say(session, "bake", nil)
	// Output:
	// the dough is kneaded
	// asked: Is the oven hot?
	// the bread is in the oven: true
	// bread
}

func ExampleSample() {
	s := server.New(mcp.Implementation{Name: "bakery", Version: "1.0.0"}, nil)
	server.AddTool(s, server.Tool{Name: "slogan"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
		result, err := server.Sample(r, "slogan", mcp.SamplingPrompt("A slogan for bread."))
		if err != nil {
			return "", err
		}
		return result.Model + ": " + result.Text(), nil
	})
	session := dial(s, &client.Options{Sample: func(context.Context, *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
		return &mcp.CreateMessageResult{Role: mcp.RoleAssistant, Model: "poet", Content: mcp.SamplingContent{mcp.Text("Rise and dine.")}}, nil
	}})
	defer session.Close()
	say(session, "slogan", nil)
	// Output: poet: Rise and dine.
}

func ExampleElicitForm() {
	s := server.New(mcp.Implementation{Name: "bakery", Version: "1.0.0"}, nil)
	crusts := &mcp.ElicitSchema{Fields: []mcp.ElicitField{{Name: "crust", Schema: &mcp.EnumSchema{
		Options: []mcp.EnumOption{{Value: "d", Title: "dark"}, {Value: "l", Title: "light"}},
	}}}}
	server.AddTool(s, server.Tool{Name: "bake"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
		chosen, err := server.ElicitForm(r, "crust", "Which crust?", crusts)
		return string(chosen), err
	})
	session := dial(s, &client.Options{Elicit: func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: []byte(`{"crust":"d"}`)}, nil
	}})
	defer session.Close()
	say(session, "bake", nil)
	// Output: {"crust":"d"}
}

// The person visits a page of the server, where secrets may be entered.
func ExampleElicitURL() {
	s := server.New(mcp.Implementation{Name: "bakery", Version: "1.0.0"}, nil)
	server.AddTool(s, server.Tool{Name: "connect"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
		if err := server.ElicitURL(r, "login", "Log in at the mill.", "https://mill.example.com/login?call="+r.Call().ID()); err != nil {
			return "", err
		}
		return "the page was opened", nil
	})
	session := dial(s, &client.Options{ElicitURLs: true, Elicit: func(_ context.Context, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		fmt.Println(params.Mode, params.Message)
		return &mcp.ElicitResult{Action: mcp.ElicitAccept}, nil
	}})
	defer session.Close()
	say(session, "connect", nil)
	// Output:
	// url Log in at the mill.
	// the page was opened
}

// The answer of the model must fit the Go type. If it does not, the model gets the reason and answers
// again.
func ExampleSampleAs() {
	type Review struct {
		Stars int `json:"stars" jsonschema:"minimum=1,maximum=5"`
	}
	s := server.New(mcp.Implementation{Name: "bakery", Version: "1.0.0"}, nil)
	server.AddTool(s, server.Tool{Name: "review"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
		review, err := server.SampleAs[Review](r, "review", mcp.SamplingPrompt("Rate this bread."))
		if err != nil {
			return "", err
		}
		return fmt.Sprint(review.Stars, " stars"), nil
	})
	answers := []string{`{"stars":6}`, `{"stars":5}`}
	session := dial(s, &client.Options{Sample: func(context.Context, *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
		said := answers[0]
		answers = answers[1:]
		fmt.Println("the model says:", said)
		return &mcp.CreateMessageResult{Role: mcp.RoleAssistant, Model: "critic", Content: mcp.SamplingContent{mcp.Text(said)}}, nil
	}})
	defer session.Close()
	say(session, "review", nil)
	// Output:
	// the model says: {"stars":6}
	// the model says: {"stars":5}
	// 5 stars
}

func ExampleRoots() {
	s := server.New(mcp.Implementation{Name: "search", Version: "1.0.0"}, nil)
	server.AddTool(s, server.Tool{Name: "where"}, func(ctx context.Context, r *server.Request, _ struct{}) (string, error) {
		roots, err := server.Roots(r, "roots")
		if err != nil {
			return "", err
		}
		return roots[0].URI, nil
	})
	session := dial(s, &client.Options{Roots: func(context.Context) ([]mcp.Root, error) {
		return []mcp.Root{{URI: "file:///home/ada"}}, nil
	}})
	defer session.Close()
	say(session, "where", nil)
	// Output: file:///home/ada
}

// Replicas with the same keys continue each other's calls. The client carries encrypted state
// from one to the other.
func ExampleOptions_stateKeys() {
	key := []byte("32 bytes of a random secret, or more")
	replica := server.New(mcp.Implementation{Name: "bakery", Version: "1.0.0"}, &server.Options{StateKeys: [][]byte{key}})
	defer func() {
		if err := replica.Shutdown(context.Background()); err != nil {
			log.Print(err)
		}
	}()
	defer func() { fmt.Println(recover()) }()
	server.New(mcp.Implementation{Name: "bakery", Version: "1.0.0"}, &server.Options{StateKeys: [][]byte{[]byte("short")}})
	// Output: server.New: StateKeys: token: key 1 has 5 bytes, at least 32 expected
}
