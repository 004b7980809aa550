"""Seconds of the processor that each benchmark may take, at most three times what was measured."""

SECONDS = {
    # echo
    "test_decide[exact-nmt]": 0.019,
    "test_decide[exact-resnet of 1,301 layers]": 0.012,
    "test_decide[paper-nmt]": 0.088,
    "test_decide[paper-resnet of 1,301 layers]": 0.04,
    "test_decide_and_simulate[nmt]": 0.022,
    "test_decide_and_simulate[resnet of 1,301 layers]": 0.015,
    # executor
    "test_steps_beside_their_operators": 0.57,
    # files
    "test_from_arrays_with_a_million_nodes": 0.13,
    "test_read_tables_of_a_hundred_thousand_nodes": 2,
    # simulation
    "test_simulate_a_million_steps": 0.06,
    # lower_sets
    "test_exact_dp_at_its_least_budget[vgg19]": 0.0026,
    "test_exact_dp_at_its_least_budget[resnet50]": 0.0084,
    "test_exact_dp_at_its_least_budget[resnet152]": 0.048,
    "test_exact_dp_at_its_least_budget[densenet161]": 0.053,
    "test_exact_dp_at_its_least_budget[googlenet]": 0.7,
    "test_exact_dp_at_its_least_budget[unet]": 0.013,
    "test_exact_dp_at_its_least_budget[pspnet]": 1.5,
    "test_exact_dp_on_three_chains_of_22_nodes": 1,
    "test_least_budget[googlenet]": 0.69,
    "test_approximate_dp[googlenet-1 times the least budget]": 0.0066,
    "test_approximate_dp[googlenet-1.1 times the least budget]": 0.007,
    "test_approximate_dp[googlenet-1.5 times the least budget]": 0.0062,
    "test_approximate_dp[resnet50-1 times the least budget]": 0.0066,
    "test_approximate_dp[resnet50-1.1 times the least budget]": 0.006,
    "test_approximate_dp[resnet50-1.5 times the least budget]": 0.0068,
    "test_approximate_dp[densenet161-1 times the least budget]": 0.049,
    "test_approximate_dp[densenet161-1.1 times the least budget]": 0.06,
    "test_approximate_dp[densenet161-1.5 times the least budget]": 0.057,
    "test_formula_frontier[resnet152-pruned]": 5,
    "test_formula_frontier[resnet152-wide]": 5,
    "test_formula_frontier[densenet161-pruned]": 2.8,
    "test_formula_frontier[densenet161-wide]": 2.7,
    "test_liveness_dp[vgg19]": 0.017,
    "test_liveness_dp[resnet50]": 0.17,
    "test_liveness_dp[resnet152]": 0.33,
    "test_liveness_dp[densenet161]": 0.55,
    "test_liveness_dp[googlenet]": 0.039,
    "test_liveness_dp[unet]": 0.06,
    "test_liveness_dp[pspnet]": 0.54,
    # models
    "test_build[resnet of 20,000 operations]": 1,
    "test_build[lstm of 20,000 operations]": 0.81,
    # offsets
    "test_an_adversarial_instance_in_its_capacity[A]": 0.019,
    "test_an_adversarial_instance_in_its_capacity[D]": 0.069,
    "test_an_adversarial_instance_in_its_capacity[F]": 0.0078,
    "test_an_adversarial_instance_in_its_capacity[K]": 0.015,
    "test_a_schedule[model:unet-no_remat-None]": 0.0045,
    "test_a_schedule[model:transformer_base-chen_greedy-60%]": 0.0061,
    "test_a_schedule[model:densenet161-liveness_dp-60%]": 0.54,
    "test_a_schedule[model:lstm-chen_greedy-least]": 3,
    "test_a_schedule[model:nmt-chen_greedy-60%]": 0.2,
    # separators
    "test_least_fill_in_on_a_residual_network": 0.016,
    "test_least_fill_in_on_a_public_instance[he150]": 0.2,
    "test_the_whole_pipeline_of_twremat": 0.43,
    # startup
    "test_start_up_on_a_training_graph_of_200_nodes[help]": 0.1,
    "test_start_up_on_a_training_graph_of_200_nodes[solve]": 1,
    "test_show_npz_of_a_million_nodes": 4.5,
}
