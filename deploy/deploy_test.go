package deploy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// maxProgram is the size of the command in a container, in bytes.
const maxProgram = 50_000_000

// objects are the objects of an overlay.
type objects struct {
	deployment appsv1.Deployment
	service    corev1.Service
	budget     policyv1.PodDisruptionBudget
	scaler     autoscalingv2.HorizontalPodAutoscaler
	network    networkingv1.NetworkPolicy
	files      corev1.ConfigMap
	secret     corev1.Secret
}

// build builds a kustomization. Each object must have known members only.
func build(t *testing.T, folder string) *objects {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		t.Fatal(err)
	}
	all := &objects{}
	kinds := map[string]any{
		"Deployment": &all.deployment, "Service": &all.service, "PodDisruptionBudget": &all.budget, "HorizontalPodAutoscaler": &all.scaler,
		"NetworkPolicy": &all.network, "ConfigMap": &all.files, "Secret": &all.secret,
	}
	for _, resource := range resources.Resources() {
		text, err := resource.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		object, ok := kinds[resource.GetKind()]
		if !ok {
			t.Fatalf("an object of the unexpected kind %s", resource.GetKind())
		}
		delete(kinds, resource.GetKind())
		if err := yaml.UnmarshalStrict(text, object); err != nil {
			t.Errorf("%s: %v", resource.GetKind(), err)
		}
	}
	if len(kinds) > 0 {
		t.Fatalf("there are no objects of the kinds %v", kinds)
	}
	return all
}

// TestKubernetes: the objects of each overlay are valid and belong together, and pods have no rights that they do not need.
func TestKubernetes(t *testing.T) {
	for overlay, scheme := range map[string]string{"nats": "nats://", "redis": "rediss://", "postgres": "postgres://"} {
		t.Run(overlay, func(t *testing.T) {
			all := build(t, filepath.Join("kubernetes/overlays", overlay))
			pod := all.deployment.Spec.Template
			for what, labels := range map[string]map[string]string{
				"deployment": all.deployment.Spec.Selector.MatchLabels, "service": all.service.Spec.Selector,
				"budget": all.budget.Spec.Selector.MatchLabels, "network policy": all.network.Spec.PodSelector.MatchLabels,
				"spread": pod.Spec.TopologySpreadConstraints[0].LabelSelector.MatchLabels,
			} {
				if len(labels) == 0 || !reflect.DeepEqual(labels, pod.Labels) {
					t.Errorf("the %s selects %v, and pods have %v", what, labels, pod.Labels)
				}
			}
			if !strings.HasPrefix(string(all.secret.Data["DOVETAIL_STORE"]), scheme) {
				t.Errorf("the store is %s", all.secret.Data["DOVETAIL_STORE"])
			}
			if target := all.scaler.Spec.ScaleTargetRef; target.Name != all.deployment.Name || target.Kind != "Deployment" || *all.scaler.Spec.MinReplicas < 2 {
				t.Errorf("the autoscaler scales %+v", target)
			}
			checkPod(t, all, &pod.Spec)
		})
	}
}

func checkPod(t *testing.T, all *objects, pod *corev1.PodSpec) {
	t.Helper()
	c := pod.Containers[0]
	if s := pod.SecurityContext; !*s.RunAsNonRoot || *s.RunAsUser == 0 || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault || *pod.AutomountServiceAccountToken {
		t.Errorf("the pod has %+v", s)
	}
	if s := c.SecurityContext; !*s.ReadOnlyRootFilesystem || *s.AllowPrivilegeEscalation || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || s.Privileged != nil {
		t.Errorf("the container has %+v", s)
	}
	if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() {
		t.Errorf("the resources are %+v", c.Resources)
	}
	for path, probe := range map[string]*corev1.Probe{"/livez": c.LivenessProbe, "/readyz": c.ReadinessProbe} {
		if probe.HTTPGet.Path != path || probe.HTTPGet.Port.StrVal != c.Ports[0].Name {
			t.Errorf("the probe is %+v, want %s", probe, path)
		}
	}
	if port := all.service.Spec.Ports[0].TargetPort.StrVal; port != c.Ports[0].Name || all.network.Spec.Ingress[0].Ports[0].Port.StrVal != port {
		t.Errorf("the service sends to the port %s", port)
	}
	for _, mount := range c.VolumeMounts {
		i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
		if i < 0 || pod.Volumes[i].ConfigMap == nil || pod.Volumes[i].ConfigMap.Name != all.files.Name || !mount.ReadOnly {
			t.Errorf("%+v is mounted", mount)
		}
		for _, arg := range c.Args { // each file that a flag names is in the volume
			if name, ok := strings.CutPrefix(arg[strings.Index(arg, "=")+1:], mount.MountPath+"/"); ok && all.files.Data[name] == "" {
				t.Errorf("%s names no file of the config map", arg)
			}
		}
	}
	if c.EnvFrom[0].SecretRef.Name != all.secret.Name {
		t.Errorf("the variables are from %+v", c.EnvFrom)
	}
	drain := regexp.MustCompile(`-drain=(\w+)`).FindStringSubmatch(strings.Join(c.Args, " "))
	if d, err := time.ParseDuration(drain[1]); err != nil || d+10*time.Second > time.Duration(*pod.TerminationGracePeriodSeconds)*time.Second {
		t.Errorf("the program drains for %v, and is killed after %d s", drain, *pod.TerminationGracePeriodSeconds)
	}
}

// program builds the command as the container has it.
func program(t *testing.T) string {
	t.Helper()
	containerfile, err := os.ReadFile("Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^RUN CGO_ENABLED=0 go build -C (\S+) (.*) -o /dovetail \.$`).FindSubmatch(containerfile)
	if line == nil {
		t.Fatalf("the Containerfile builds nothing:\n%s", containerfile)
	}
	path := filepath.Join(t.TempDir(), "dovetail")
	build := exec.CommandContext(t.Context(), "sh", "-c", fmt.Sprintf("go build %s -o %s .", line[2], path))
	build.Dir = filepath.Join("..", string(line[1]))
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	return path
}

// TestContainer: the program runs without a shell, libraries and rights, in a root that has it alone and the files of Kubernetes, and
// with the arguments of the deployment.
func TestContainer(t *testing.T) {
	path := program(t)
	if info, err := os.Stat(path); err != nil || info.Size() > maxProgram {
		t.Errorf("the program has %d bytes, more than %d: %v", info.Size(), maxProgram, err)
	}
	all := build(t, "kubernetes/overlays/nats")
	container := all.deployment.Spec.Template.Spec.Containers[0]
	root := t.TempDir()
	for name, text := range map[string]string{"dovetail": "", "etc/dovetail/mcp.json": all.files.Data["mcp.json"], "etc/dovetail/policy.json": all.files.Data["policy.json"]} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		content := []byte(text)
		if name == "dovetail" {
			var err error
			if content, err = os.ReadFile(path); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(root, name), content, 0o555); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(root, "store"), 0o777); err != nil { // in place of a server for the store
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(root, 0o755), os.Chmod(filepath.Join(root, "store"), 0o777)); err != nil {
		t.Fatal(err)
	}
	var args []string
	for _, arg := range container.Args {
		arg = strings.NewReplacer("$(DOVETAIL_URL)", container.Env[0].Value, "$(DOVETAIL_ISSUER)", container.Env[1].Value, "0.0.0.0:8900", "127.0.0.1:0", "10s", "0s").Replace(arg)
		args = append(args, arg)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := exec.CommandContext(ctx, "/dovetail", args...)
	c.Dir, c.Env = "/", []string{"DOVETAIL_STORE=/store/state"}
	c.SysProcAttr = isolated(root)
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	said, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var printed bytes.Buffer
	address := serving(t, io.TeeReader(said, &printed))
	response, err := http.Get("http://" + address + "/livez")
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("/livez says %s", response.Status)
	}
	if response, err = http.Post("http://"+address+"/mcp", "application/json", strings.NewReader("{}")); err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized && response.StatusCode != http.StatusForbidden { // the host is that of -url only
		t.Errorf("without a token, /mcp says %s", response.Status)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.Process.Pid))
	if err != nil || !regexp.MustCompile(`(?m)^CapEff:\s+0+$`).Match(status) {
		t.Errorf("the process has rights: %s %v", status, err)
	}
	cancel()
	_, _ = io.Copy(&printed, said)
	if err := c.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("it ends with %v: %s", err, &printed)
	}
}

// serving returns the address that the program prints.
func serving(t *testing.T, said io.Reader) string {
	t.Helper()
	var text strings.Builder
	for buffer := make([]byte, 4096); ; {
		n, err := said.Read(buffer)
		text.Write(buffer[:n])
		if found := regexp.MustCompile(`serving  http://([\d.:]+)/`).FindStringSubmatch(text.String()); found != nil {
			return found[1]
		}
		if err != nil {
			t.Fatalf("the program has ended: %s", &text)
		}
	}
}

// TestSystemd: the unit is valid, and systemd finds little that it could do without.
func TestSystemd(t *testing.T) {
	path := program(t)
	unit, err := os.ReadFile("systemd/dovetail.service")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	changed := filepath.Join(folder, "dovetail.service")
	if err := os.WriteFile(changed, bytes.ReplaceAll(unit, []byte("/usr/local/bin/dovetail"), []byte(path)), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, line := range [][]string{{"verify", changed}, {"security", "--offline=yes", "--threshold=20", changed}} {
		if out, err := exec.CommandContext(t.Context(), "systemd-analyze", line...).CombinedOutput(); err != nil {
			t.Errorf("systemd-analyze %s: %v\n%s", line[0], err, out)
		}
	}
}
