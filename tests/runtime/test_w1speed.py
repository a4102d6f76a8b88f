import time, pytest, cProfile, pstats
from runtime import trial
from django.db import connection
from django.test.utils import CaptureQueriesContext
pytestmark = pytest.mark.django_db(transaction=True)
def test_speed(shop, publish):
    steps=[{"id":"a","type":"action","op":"ticket/upsert","inputs":{"externalId":"{{_body.id}}","type":"order"}},
      {"id":"b","type":"action","op":"ticket/assign-least-busy","inputs":{"group":"warehouse"}}]
    a=publish(shop,steps)
    with CaptureQueriesContext(connection) as q:
        trial.test(a,"en",[trial.of_body(a,{"id":"1"})])
    print(len(q)); print("\n".join(f'{x["time"]} {x["sql"][:110]}' for x in q.captured_queries))
    pr=cProfile.Profile(); t=time.process_time(); w=time.monotonic()
    pr.enable()
    for n in range(20): trial.test(a,"en",[trial.of_body(a,{"id":str(n)})])
    pr.disable(); print("cpu", time.process_time()-t, "wall", time.monotonic()-w)
    pstats.Stats(pr).sort_stats("tottime").print_stats(12)
