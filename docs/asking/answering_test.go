package asking_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"strconv"
	"strings"

	"github.com/dovetail-go/dovetail/client"
	"github.com/dovetail-go/dovetail/mcp"
	"github.com/dovetail-go/dovetail/server"
	"github.com/dovetail-go/dovetail/transport"
)

// Cake is a form with a field of each kind.
type Cake struct {
	Name    string `json:"name" jsonschema:"minLength=1" jsonschema_description:"what is written on it"`
	Layers  int    `json:"layers" jsonschema:"minimum=1,maximum=5"`
	Icing   string `json:"icing" jsonschema:"enum=lemon,enum=cocoa"`
	Candles bool   `json:"candles,omitempty"`
}

// terminal answers questions with the lines of a terminal.
type terminal struct{ lines *bufio.Scanner }

// elicit shows a form field by field. A line with a dot declines.
func (t *terminal) elicit(_ context.Context, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	if params.Mode == mcp.ElicitURL {
		return &mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
	}
	var form mcp.ElicitSchema
	if err := json.Unmarshal(params.RequestedSchema, &form); err != nil {
		return nil, err
	}
	fmt.Println(params.Message)
	values := make(map[string]any)
	for _, field := range form.Fields {
		fmt.Printf("  %s (%s): ", field.Name, kindOf(field))
		if !t.lines.Scan() || t.lines.Text() == "." {
			return &mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
		}
		fmt.Println(t.lines.Text())
		if text := t.lines.Text(); text != "" {
			values[field.Name] = valueOf(field, text)
		}
	}
	content, err := json.Marshal(values)
	if err != nil {
		return nil, err
	}
	if err := form.Check(content); err != nil {
		fmt.Println("  this does not fit:", err)
		return &mcp.ElicitResult{Action: mcp.ElicitCancel}, nil
	}
	return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: content}, nil
}

// kindOf says what a person can enter.
func kindOf(field mcp.ElicitField) string {
	switch s := field.Schema.(type) {
	case *mcp.NumberSchema:
		return "a number"
	case *mcp.BooleanSchema:
		return "true or false"
	case *mcp.EnumSchema:
		var choices []string
		for _, option := range s.Options {
			choices = append(choices, option.Value)
		}
		return strings.Join(choices, " or ")
	}
	return "text"
}

// valueOf returns the value of a text for a field. Check refuses one that does not fit.
func valueOf(field mcp.ElicitField, text string) any {
	switch field.Schema.(type) {
	case *mcp.NumberSchema:
		return json.Number(text)
	case *mcp.BooleanSchema:
		if yes, err := strconv.ParseBool(text); err == nil {
			return yes
		}
	}
	return text
}

func Example_answering() {
	s := newServer()
	server.AddTool(s, server.Tool{Name: "order"}, func(_ context.Context, r *server.Request, _ struct{}) (string, error) {
		cake, err := server.Elicit[Cake](r, "cake", "Which cake?")
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%+v", cake), nil
	})
	person := &terminal{bufio.NewScanner(strings.NewReader("Ada\n3\ncocoa\ntrue\n"))} // in a program: os.Stdin
	session, err := client.Connect(context.Background(), transport.Pipe(s), &client.Options{Elicit: person.elicit})
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close()
	text, err := client.CallAs[string](context.Background(), session, "order", nil, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("ordered:", text)
	// Output:
	// Which cake?
	//   name (text): Ada
	//   layers (a number): 3
	//   icing (lemon or cocoa): cocoa
	//   candles (true or false): true
	// ordered: {Name:Ada Layers:3 Icing:cocoa Candles:true}
}
