// Stand-in for the package that runs models: Sentis, and the name that it has had since Unity 6.1.
using UnityEngine;

#if TAU_SENTIS
namespace Unity.Sentis
#else
namespace Unity.InferenceEngine
#endif
{
    public class ModelAsset : ScriptableObject
    {
    }
}
