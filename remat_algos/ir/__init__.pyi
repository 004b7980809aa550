from .backward import Backward as Backward
from .boundary import add_boundary as add_boundary
from .labels import Labels as Labels
from .resident import Resident as Resident
