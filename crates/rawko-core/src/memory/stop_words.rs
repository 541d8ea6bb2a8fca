//! Words that say nothing of a subject, in the form that `words` gives them.
//!
//! Words of German that are content words of software in English (`bin`, `war`, `hat`) are not among them.

/// English, with what is left of contractions (`don` `t`).
pub(super) const ENGLISH: &str = "a about above after again against all also although am an and any are aren as at be because been \
    before being below between both but by can cannot could couldn d did didn do does doesn doing don \
    down during each either else etc ever every few for from further get gets getting go goes going had \
    hadn has hasn have haven having he her here hers herself him himself his how however i if in into is \
    isn it its itself just let like ll m many may me might more most much must my myself need needs \
    neither no nor not now of off on once one only onto or other our ours ourselves out over own per \
    please re s same shall she should shouldn since so some such t than that the their theirs them \
    themselves then there these they thing things this those though through to too under until up upon \
    us use used uses using ve very via want wants was wasn we were weren what whatever when whenever \
    where whether which while who whom whose why will with within without won would wouldn you your \
    yours yourself yourselves";

/// German.
pub(super) const GERMAN: &str = "aber alle allem allen aller alles als am an andere anderen anderer anderes auch auf aus bei beim bis \
    da damit dann das dass dazu dein deine dem den denn der des desselben dessen die dies diese dieselbe \
    diesem diesen dieser dieses doch dort du durch ein eine einem einen einer eines einig einige einigen \
    er es etwas euch euer eure für gegen haben hatte hatten hier hin hinter ich ihm ihn ihnen ihr ihre \
    ihrem ihren ihrer im in indem ist jede jedem jeden jeder jedes jene jenem jenen jener jenes jetzt \
    kann kein keine keinem keinen keiner können könnte machen man manche manchen mein meine mich mir mit \
    muss musste müssen nach nicht nichts noch nun nur ob oder ohne sehr sein seine seinem seinen seiner \
    seit selbst sich sie sind so sobald solche solchem solchen soll sollen sollte sondern sonst um und \
    uns unser unsere unter viel vom von vor wann was weil weiter welche welchem welchen welcher wenn \
    werde werden wie wieder wir wird wo wurde wurden während würde würden zu zum zur zwar zwischen über";
