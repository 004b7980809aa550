"""`python -m remat_algos`."""

from remat_algos.cli.main import main

raise SystemExit(main())
