// A controller as people write them: controller-runtime with leader election, informers and server-side apply. For each
// ConfigMap labelled role=source it keeps a copy, owned by it. Commands come on standard input, answers go to standard
// output, one line each: "dump" prints what its caches hold, "leader" waits until it leads.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

var sandboxList = schema.GroupVersionKind{Group: "agents.x-k8s.io", Version: "v1beta1", Kind: "SandboxList"}

type reconciler struct {
	client.Client
}

func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var source corev1.ConfigMap
	if err := r.Get(ctx, req.NamespacedName, &source); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if source.Labels["role"] != "source" || source.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	wanted := &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: source.Name + "-copy", Namespace: source.Namespace},
		Data:       source.Data,
	}
	if err := controllerutil.SetControllerReference(&source, wanted, r.Scheme()); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.Patch(ctx, wanted, client.Apply, client.FieldOwner("copier"), client.ForceOwnership)
}

// What the caches hold: "kind/name" to resourceVersion.
func dump(ctx context.Context, c client.Client) (map[string]string, error) {
	held := map[string]string{}
	var maps corev1.ConfigMapList
	if err := c.List(ctx, &maps, client.InNamespace("default")); err != nil {
		return nil, err
	}
	for _, m := range maps.Items {
		held["configmap/"+m.Name] = m.ResourceVersion
	}
	sandboxes := unstructured.UnstructuredList{}
	sandboxes.SetGroupVersionKind(sandboxList)
	if err := c.List(ctx, &sandboxes, client.InNamespace("default")); err != nil {
		return nil, err
	}
	for _, s := range sandboxes.Items {
		held["sandbox/"+s.GetName()] = s.GetResourceVersion()
	}
	return held, nil
}

func serve(ctx context.Context, mgr ctrl.Manager) error {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		switch lines.Text() {
		case "leader":
			<-mgr.Elected()
			fmt.Println("leading")
		case "dump":
			held, err := dump(ctx, mgr.GetClient())
			if err != nil {
				return err
			}
			text, err := json.Marshal(held)
			if err != nil {
				return err
			}
			fmt.Println(string(text))
		}
	}
	return lines.Err()
}

func run() error {
	ctrl.SetLogger(zap.New(zap.WriteTo(os.Stderr)))
	// Short: the tests wait for a second leader. Renewal must survive a restart of the server.
	lease, renew, retry := 10*time.Second, 8*time.Second, 500*time.Millisecond
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		LeaderElection: true, LeaderElectionID: "copier", LeaderElectionNamespace: "default",
		LeaderElectionReleaseOnCancel: true, LeaseDuration: &lease, RenewDeadline: &renew, RetryPeriod: &retry,
		Metrics: metricsserver.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	err = ctrl.NewControllerManagedBy(mgr).For(&corev1.ConfigMap{}).Owns(&corev1.ConfigMap{}).
		Complete(&reconciler{mgr.GetClient()})
	if err != nil {
		return err
	}
	ctx := ctrl.SetupSignalHandler()
	go func() {
		if err := serve(ctx, mgr); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	return mgr.Start(ctx)
}

func main() {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
