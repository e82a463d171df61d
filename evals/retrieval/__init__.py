"""How good retrieval is: collections with judgements, the legs, their fusion, reranking."""
