//! The plans that sources describe.

use boxoffice_core::payment::PaymentStep;
use boxoffice_gateway::plan::{Plan, StepPlan, Verdict};

#[test]
fn a_source_is_parsed_into_the_plans_of_its_steps() {
    assert_eq!(Plan::parse("ok"), Some(Plan::default()));
    let plan = Plan::parse("lost-2+late-50+amount-7+capture-fails+void-timeout+refund-error-1").expect("a plan");
    let authorize = StepPlan { dropped: 2, late_ms: Some(50), verdict: Verdict::Amount(7), ..StepPlan::default() };
    assert_eq!(plan.step(PaymentStep::Authorize), authorize);
    assert_eq!(plan.step(PaymentStep::Capture).verdict, Verdict::Reject);
    assert_eq!(plan.step(PaymentStep::Void).timeouts, u32::MAX);
    assert_eq!(plan.step(PaymentStep::Refund(4)).errors, 1);
    for unknown in
        ["", "okay", "ok+", "decline-1", "fails", "capture-decline", "capture-amount-1", "lost", "lost--1", "late-x"]
    {
        assert_eq!(Plan::parse(unknown), None, "{unknown}");
    }
}
