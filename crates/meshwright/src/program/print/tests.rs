mod dummy_tests {}
