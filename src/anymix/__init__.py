"""One model that holds up on any mixture of your clients.

Solves min_w max_{λ∈Λ} Σ_k λ_k L_k(w) + γ R(w): p domains with mean losses L_k, and a set Λ of target
mixtures to guard against (Agnostic Federated Learning, Mohri, Sivek and Suresh, 2019).
"""

__version__ = "0.1.0"
