package openapi

import (
	"context"
	"fmt"
	"net/http"
	"strings"
)

// Credentials are secrets that do not change, by the names that the document gives
// its security schemes; [SecurityScheme.Apply] says in which form.
type Credentials map[string]string

// Authorize applies the secrets of the first alternative for which there are all. It
// is for [Options].Authorize. Without any such alternative it fails, unless nobody
// has to be authorized.
func (c Credentials) Authorize(_ context.Context, request *http.Request, security Security) error {
	if len(security.Alternatives) == 0 {
		return nil
	}
	var anybody bool
	var missing []string
	for _, requirement := range security.Alternatives {
		lacking := c.lacking(requirement)
		if lacking != "" {
			missing = append(missing, lacking)
			continue
		}
		if len(requirement) == 0 {
			anybody = true
			continue
		}
		for _, scheme := range requirement {
			if err := scheme.Apply(request, c[scheme.Name]); err != nil {
				return err
			}
		}
		return nil
	}
	if anybody {
		return nil
	}
	return fmt.Errorf("there are no credentials for %s", strings.Join(missing, " or "))
}

// lacking names the first scheme of a requirement that there is no secret for.
func (c Credentials) lacking(requirement Requirement) string {
	for _, scheme := range requirement {
		if _, ok := c[scheme.Name]; !ok && scheme.Type != "mutualTLS" {
			return scheme.Name
		}
	}
	return ""
}
