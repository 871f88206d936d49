// Command fluxapply applies the objects of a manifest as Flux's kustomize-controller does: with the same
// library and the same options, except that it waits for nothing.
//
//	fluxapply < manifest.yaml     prints what became of each object: `StreamJob/ns/name configured`
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/fluxcd/pkg/ssa"
	"github.com/fluxcd/pkg/ssa/utils"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	controller = "kustomize-controller"
	group      = "kustomize.toolkit.fluxcd.io"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "fluxapply:", err)
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer) error {
	objects, err := utils.ReadObjects(in)
	if err != nil {
		return err
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return err
	}
	kube, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	manager := ssa.NewResourceManager(kube, nil, ssa.Owner{Field: controller, Group: group})
	changes, err := manager.ApplyAllStaged(context.Background(), objects, options())
	if err != nil {
		return err
	}
	for _, change := range changes.Entries {
		fmt.Fprintln(out, change.String())
	}
	return nil
}

// options are those of internal/controller/kustomization_controller.go, method apply, of kustomize-controller.
func options() ssa.ApplyOptions {
	options := ssa.DefaultApplyOptions()
	ssaPolicy := group + "/ssa"
	options.ExclusionSelector = map[string]string{
		group + "/reconcile": "disabled",
		ssaPolicy:            "Ignore",
	}
	options.IfNotPresentSelector = map[string]string{ssaPolicy: "IfNotPresent"}
	options.ForceSelector = map[string]string{group + "/force": "enabled"}
	options.Cleanup = ssa.ApplyCleanupOptions{
		Annotations: []string{corev1.LastAppliedConfigAnnotation},
		FieldManagers: []ssa.FieldManager{
			{Name: "kubectl", OperationType: metav1.ManagedFieldsOperationApply},
			{Name: "kubectl", OperationType: metav1.ManagedFieldsOperationUpdate},
			{Name: "before-first-apply", OperationType: metav1.ManagedFieldsOperationUpdate},
			{Name: controller, OperationType: metav1.ManagedFieldsOperationUpdate},
		},
		Exclusions: map[string]string{ssaPolicy: "Merge"},
	}
	return options
}
