package netguard_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/dovetail-go/dovetail/internal/netguard"
)

func ExampleNew() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"keys":[]}`)
	}))
	defer server.Close()

	_, _, err := netguard.New(nil).Get(context.Background(), "https://169.254.169.254/latest/meta-data", 0)
	if refused, ok := errors.AsType[*netguard.RefusedError](err); ok {
		fmt.Println(refused.Reason)
	}

	local := netguard.New(&netguard.Options{AllowLoopback: true})
	body, _, err := local.Get(context.Background(), server.URL, 0)
	fmt.Printf("%s %v\n", body, err)
	// Output:
	// 169.254.169.254 is link-local (RFC 3927)
	// {"keys":[]} <nil>
}
