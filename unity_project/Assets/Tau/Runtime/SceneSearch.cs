using System;
using UnityEngine;
using UnityEngine.SceneManagement;

namespace Tau
{
    /// <summary>Finds components in the open scenes, in every Unity version and also in edit mode.</summary>
    internal static class SceneSearch
    {
        /// <summary>The first component of a type in any open scene, active or not; null if there is none.</summary>
        public static T Find<T>()
            where T : Component
        {
            for (var i = 0; i < SceneManager.sceneCount; i++)
            {
                T found = Find<T>(SceneManager.GetSceneAt(i));
                if (found != null)
                {
                    return found;
                }
            }
            return null;
        }

        /// <summary>The first component of a type in a scene, active or not; null if there is none.</summary>
        public static T Find<T>(Scene scene)
            where T : Component
        {
            if (!scene.isLoaded)
            {
                return null;
            }
            foreach (GameObject root in scene.GetRootGameObjects())
            {
                T found = root.GetComponentInChildren<T>(true);
                if (found != null)
                {
                    return found;
                }
            }
            return null;
        }

        /// <summary>Whether a scene contains only cameras, lights and their components.</summary>
        public static bool IsEmpty(Scene scene)
        {
            foreach (GameObject root in scene.GetRootGameObjects())
            {
                foreach (Component part in root.GetComponentsInChildren<Component>(true))
                {
                    if (!IsScenery(part))
                    {
                        return false;
                    }
                }
            }
            return true;
        }

        /// <summary>Whether a component is scenery. A missing component (null) is not.</summary>
        private static bool IsScenery(Component part)
        {
            if (part == null)
            {
                return false;
            }
            return part is Transform || part is Camera || part is Light || IsKnownByName(part.GetType());
        }

        /// <summary>
        /// Whether Unity or a render pipeline adds this type to cameras and lights. Compared by name, because the
        /// type's module can be missing in a project.
        /// </summary>
        private static bool IsKnownByName(Type type)
        {
            string name = type.FullName ?? type.Name;
            return name == "UnityEngine.AudioListener" || name == "UnityEngine.FlareLayer"
                || name.StartsWith("UnityEngine.Rendering.", StringComparison.Ordinal);
        }
    }
}
